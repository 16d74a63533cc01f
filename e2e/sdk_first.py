#!/usr/bin/env python3
"""sdk_first.py BINARY LANGUAGE: does the listing of the README work at the first run?

Builds the package as a user gets it, installs it into an empty project, runs the listing of the README
against `driftq dev` and produces an order. The order must be charged once, its receipt stored, and the worker
must stop with status 0.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ADDRESS = "127.0.0.1:8080"
HANDLER_LINES_MAX = 20
TIMEOUT = 60.0


def run(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")


def listing(fence: str) -> str:
    found = re.search(rf"```{fence}\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    if found is None:
        sys.exit(f"the README has no block `{fence}`")
    return found[1]


def handler_lines(code: str, begin: str, end: str) -> int:
    body = code[code.index(begin):]
    return len(body[: body.index(end)].strip().splitlines())


def python(project: Path) -> tuple[list[str], int]:
    run(sys.executable, "-m", "venv", "--without-pip", "venv", cwd=project)
    packages = next((project / "venv/lib").glob("python*")) / "site-packages"
    dist = project / "dist"
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir",
        str(dist), str(ROOT / "sdks/python"), cwd=project)
    wheel = next(dist.glob("driftq-*.whl"))
    run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore",
        "--target", str(packages), str(wheel), cwd=project)
    code = listing("python")
    (project / "worker.py").write_text(code)
    return [str(project / "venv/bin/python"), "worker.py"], handler_lines(code, "@app.handler", "\n\n")


def typescript(project: Path) -> tuple[list[str], int]:
    sdk = ROOT / "sdks/typescript"
    run("npm", "install", "--silent", "--no-audit", "--no-fund", cwd=sdk)
    run("npm", "pack", "--silent", "--pack-destination", str(project), cwd=sdk)
    (project / "package.json").write_text('{"type": "module", "private": true}')
    package = next(project.glob("driftq-sdk-*.tgz"))
    run("npm", "install", "--silent", "--no-audit", "--no-fund", str(package), "zod@4.6.7", "tsx@4.23.15", cwd=project)
    code = listing("ts")
    (project / "worker.ts").write_text(code)
    return ["node", "--import", "tsx", "worker.ts"], handler_lines(code, "worker.handle", "\n});")


def post(address: str, path: str, body: object) -> dict:
    request = urllib.request.Request(f"http://{address}/v1/{path}", json.dumps(body).encode())
    return json.loads(urllib.request.urlopen(request, timeout=10).read())


def receipts(address: str) -> list[dict]:
    page = urllib.request.urlopen(f"http://{address}/v1/topics/receipts/messages", timeout=10).read()
    return json.loads(page)["messages"]


def main() -> None:
    binary, language = str(Path(sys.argv[1]).resolve()), sys.argv[2]
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory)
        command, lines = {"python": python, "typescript": typescript}[language](project)
        dev = [binary, "dev", "--listen", "127.0.0.1:0", "--topic", "orders", "--topic", "receipts"]
        server = subprocess.Popen(dev, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        address = server.stdout.readline().split("http://")[1].strip()
        for source in project.glob("worker.*"):
            source.write_text(source.read_text("utf-8").replace(ADDRESS, address))
        began = time.monotonic()
        worker = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            post(address, "produce", {"topic": "orders", "value": '{"id":"77","cents":1200}'})
            while not receipts(address):
                if time.monotonic() - began > TIMEOUT or worker.poll() is not None:
                    worker.kill()
                    sys.exit(f"{language}: no receipt: {worker.communicate()[0]}")
                time.sleep(0.05)
            took = time.monotonic() - began
            worker.send_signal(signal.SIGTERM)
            output, _ = worker.communicate(timeout=TIMEOUT)
        finally:
            worker.kill()
            os.kill(server.pid, signal.SIGTERM)
            server.wait(10)
        if worker.returncode != 0:
            sys.exit(f"{language}: the worker exits with {worker.returncode}: {output}")
        if output.count("is charged") != 1:
            sys.exit(f"{language}: not charged once: {output}")
        if lines > HANDLER_LINES_MAX:
            sys.exit(f"{language}: the handler has {lines} lines, more than {HANDLER_LINES_MAX}")
        print(f"sdk-first: {language} works at the first run, first receipt after {took:.1f} s, handler {lines} lines")


if __name__ == "__main__":
    main()
