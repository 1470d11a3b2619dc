"""The quick start of ``docs/export.md``, with a real Prometheus.

    python -m benchmarks.watching.prometheus /usr/bin/prometheus [--minutes 10] [--every 15]

A training script runs under ``tui-profiler export --run``; Prometheus scrapes it with the
configuration that the document shows. A second target has what this machine may lack: an exporter
of the tests' session of a GPU and of a language model that generates. Then, over Prometheus's HTTP
API: health of the targets, scrapes that are missing, every expression of the Grafana dashboard and
of the document, steps by its counter beside those that the script counts itself. ``promtool``
beside it checks the exposition and the configuration.

Resident memory of the exporter, the program and Prometheus is printed by thirds of the time.

Exits with 1 where a target is down, more than one scrape of 1,000 is missing, an expression has no
data, a tool complains, the steps are more than 2 % apart, or the exporter grew by over 2.5 MiB in
the last third: its session keeps the last 480 ticks, about 5 KiB each, which are there after 4 to
45 minutes, the later the busier the machine.
"""

import argparse
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tui_profiler.verbs.export import Latest, serve  # noqa: E402

TRAIN = """
import os, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(64, 1000)

    def forward(self, input_ids):
        return self.head(self.blocks(self.words(input_ids)))

torch.manual_seed(0)
model = Words()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = DataLoader(TensorDataset(torch.randint(0, 1000, (2048, 33))), batch_size=8, shuffle=True)
steps = 0
while True:
    for (tokens,) in data:
        optimizer.zero_grad()
        scores = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        steps += 1
        with open(sys.argv[1] + ".new", "w") as file:
            file.write(str(steps))
        os.replace(sys.argv[1] + ".new", sys.argv[1])
"""
SAMPLE_SECONDS = 5.0
MOST_OFF, MOST_GROWTH = 0.02, 2.5 * 2**20
MOST_MISSED = 1e-3
"""Share of the scrapes: Prometheus gives up after the interval between them, 1 s at the least."""


class Trial:
    """A Prometheus, what it scrapes, and what was wrong with them."""

    def __init__(self, prometheus: str, every: int, folder: Path) -> None:
        self._binary, self._every, self._folder = Path(prometheus), every, folder
        self.wrong: list[str] = []
        self.exported, self.stand_in, self.served = (f"127.0.0.1:{port}" for port in _ports(3))
        self._resident: dict[str, list[int]] = {}
        self._counted: list[tuple[float, int]] = []
        """When the script's own steps were read, and how many there were."""

    def run(self, minutes: float) -> None:
        with self._programs() as programs:
            print(f"{minutes:g} minutes, a scrape every {self._every} s", flush=True)
            began = time.time()
            while (now := time.time()) < began + 60 * minutes:
                for name, process in programs.items():
                    rss = process.memory_info().rss
                    self._resident.setdefault(name, []).append(rss)
                self._counted.append((time.time(), int((self._folder / "steps").read_text())))
                time.sleep(min(SAMPLE_SECONDS, began + 60 * minutes - now))
            self._targets(time.time() - began)
            self._expressions()
            self._same_steps(time.time() - began)
            self._tools()
        self._growth()

    @contextmanager
    def _programs(self) -> Iterator[dict[str, psutil.Process]]:
        script = self._folder / "train.py"
        script.write_text(TRAIN)
        (self._folder / "prometheus.yml").write_text(self._configuration())
        export = [sys.executable, "-m", "tui_profiler", "export", "--listen", self.exported]
        watch = [self._binary, f"--config.file={self._folder / 'prometheus.yml'}"]
        watch += [f"--storage.tsdb.path={self._folder / 'data'}"]
        watch += [f"--web.listen-address={self.served}"]
        from tests.reports.metrics.test_session_metrics import everything

        latest = Latest(20)
        latest.session = everything()
        host, _, port = self.stand_in.partition(":")
        _, close = serve(latest, host, int(port))
        started = [subprocess.Popen([*export, "--run", script, self._folder / "steps"])]
        try:
            _wait(f"http://{self.exported}/metrics", "tui_profiler_step_mean_seconds")
            with (self._folder / "log").open("w") as log:
                started.append(subprocess.Popen(watch, stderr=log))
            _wait(f"http://{self.served}/-/ready", "")
            exporter = psutil.Process(started[0].pid)
            program = max(exporter.children(recursive=True), key=lambda one: one.cpu_times().user)
            prometheus = psutil.Process(started[1].pid)
            yield {"exporter": exporter, "program": program, "Prometheus": prometheus}
        finally:
            close()
            for process in started:
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
                process.kill()
                process.wait()

    def _configuration(self) -> str:
        """Return that of the document, with our addresses and interval, and the second target."""
        text = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
        [block] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
        indent = len(block) - len(block.lstrip())
        block = "\n".join(line[indent:] for line in block.splitlines())
        both = f'"{self.exported}", "{self.stand_in}"'
        return re.sub(r"\d+s", f"{self._every}s", block.replace('"127.0.0.1:9400"', both))

    def _asked(self, path: str, **query: str) -> object:
        url = f"http://{self.served}/api/v1/{path}?{urlencode(query)}"
        with urlopen(url, timeout=60) as answer:
            return json.load(answer)["data"]

    def _found(self, expression: str) -> list[dict[str, object]]:
        data = self._asked("query", query=expression)
        assert isinstance(data, dict)
        return list(data["result"])

    def _value(self, expression: str) -> float:
        return float(self._found(expression)[0]["value"][1])  # type: ignore[index]

    def _targets(self, seconds: float) -> None:
        data = self._asked("targets")
        assert isinstance(data, dict)
        for target in data["activeTargets"]:
            print(f"{target['scrapeUrl']}: {target['health']} {target['lastError']}")
            self._expect(target["health"] == "up", f"{target['scrapeUrl']} is not up")
        own = f'{{instance="{self.exported}"}}'
        window = f"{int(seconds)}s"
        scrapes = self._value(f"count_over_time(up{own}[{window}])")
        answered = self._value(f"sum_over_time(up{own}[{window}])")
        took = self._value(f"avg_over_time(scrape_duration_seconds{own}[{window}])")
        most = self._value(f"max_over_time(scrape_duration_seconds{own}[{window}])")
        samples = self._value(f"scrape_samples_scraped{own}")
        print(f"{scrapes:.0f} scrapes, {answered:.0f} answered, {samples:.0f} samples each")
        print(f"{1e3 * took:.1f} ms each, {1e3 * most:.1f} at most")
        missed = scrapes - answered
        self._expect(missed <= MOST_MISSED * scrapes, f"{missed:.0f} scrapes had no answer")
        # Prometheus finds its targets within 5 s, and spreads the first scrapes over an interval.
        due = int((seconds - 5) / self._every) - 1
        skipped = due - scrapes
        self._expect(skipped <= MOST_MISSED * due, f"{skipped:.0f} scrapes are missing")

    def _expressions(self) -> None:
        for title, expression in expressions():
            asked = expression.replace("$instance", "(" + self.exported + "|" + self.stand_in + ")")
            by: dict[str, int] = {}
            for one in self._found(asked):
                labels = one["metric"]
                assert isinstance(labels, dict)
                at = str(labels["instance"])
                by[at] = by.get(at, 0) + 1
            mine, its = by.get(self.exported, 0), by.get(self.stand_in, 0)
            print(f"{title:<40} {mine:>3} series, {its:>3} of the made-up session  {expression}")
            self._expect(bool(by), f"no data: {expression}")

    def _same_steps(self, seconds: float) -> None:
        name = f'tui_profiler_steps_total{{instance="{self.exported}"}}[{int(seconds)}s]'
        data = self._asked("query", query=name)
        assert isinstance(data, dict)
        scraped = data["result"][0]["values"]
        (began, first), (ended, last) = scraped[0], scraped[-1]
        times, steps = zip(*self._counted, strict=True)
        own = float(np.interp(ended, times, steps) - np.interp(began, times, steps))
        found = float(last) - float(first)
        off = found / own - 1
        print(f"steps between two scrapes: {own:.0f} by the script, {found:.0f} by the counter")
        self._expect(abs(off) <= MOST_OFF, "the steps differ")

    def _tools(self) -> None:
        tool = self._binary.with_name("promtool")
        if not tool.exists():
            print("promtool is not beside it: not run")
            return
        with urlopen(f"http://{self.exported}/metrics", timeout=60) as answer:
            text = answer.read()
        for name, command, given in (
            ("check metrics", ["check", "metrics"], text),
            ("check config", ["check", "config", str(self._folder / "prometheus.yml")], b""),
        ):
            done = subprocess.run([tool, *command], input=given, capture_output=True, check=False)
            said = (done.stdout + done.stderr).decode().strip()
            print(f"promtool {name}: exit {done.returncode} {said}")
            self._expect(done.returncode == 0, f"promtool {name}")

    def _growth(self) -> None:
        for name, sizes in self._resident.items():
            third = max(len(sizes) // 3, 1)
            thirds = [sizes[:third], sizes[third : 2 * third], sizes[2 * third :]]
            medians = [statistics.median(one) for one in thirds if one]
            mib = ", ".join(f"{median / 2**20:.2f}" for median in medians)
            print(f"{name:<11} MiB resident, median of each third: {mib}")
            if name == "exporter":
                self._expect(medians[-1] - medians[-2] < MOST_GROWTH, "the exporter grows")

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.wrong.append(otherwise)


def expressions() -> list[tuple[str, str]]:
    """Return every expression of the dashboard and the document, with where it is asked."""
    dashboard = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    found = [
        (panel["title"], target["expr"])
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]
    text = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```promql\n(.*?)```", text, re.DOTALL)
    # A comparison has no data while it does not hold.
    sides = [line.rpartition(" > ")[0] or line for line in block.splitlines() if line]
    return found + [("docs/export.md", side) for side in sides]


def _ports(count: int) -> list[int]:
    taken = [socket.socket() for _ in range(count)]
    for one in taken:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


def _wait(url: str, said: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            with urlopen(url, timeout=60) as answer:
                if said in answer.read().decode():
                    return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"{url} did not answer in 120 s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("prometheus", help="its binary")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=int, default=15, help="seconds between scrapes")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(asked.prometheus, asked.every, Path(folder))
        trial.run(asked.minutes)
    for one in trial.wrong:
        print(f"WRONG: {one}")
    return int(bool(trial.wrong))


if __name__ == "__main__":
    sys.exit(main())
