.PHONY: check format lint types imports schemas test

check: lint types imports test

format:
	ruff format .
	ruff check --fix .

lint:
	ruff format --check .
	ruff check .

types:
	mypy

imports:
	lint-imports

schemas:
	python -m benchmarks.schemas

test:
	python -m pytest -n 3 --dist worksteal
