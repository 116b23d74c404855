"""A real `vllm serve` with the tiny model as a child process: start, wait until it serves, watch, stop, kill.

The process and its files belong here. Arguments and environment are `bench.server_options`; load and measurement never
belong here. vLLM is never imported: it lives in an environment of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from bench import process_group, server_log, server_options
from bench.ports import free_port
from bench.server_options import VllmOptions
from bench.setup import places

START_LIMIT_S = 240.0
#: vLLM drops its engine at once but waits for connections under load; nothing here is worth waiting for.
STOP_PATIENCE_S = 5.0
POLL_S = 0.25

#: Called a few times a second while vLLM starts: seconds so far, what it does now.
OnProgress = Callable[[float, str], None]


class ServerError(Exception):
    """vLLM cannot be started or has ended; the text is one sentence that names the reason and the log."""


class VllmServer:
    """One server at a time; `start` after `stop` or `kill` restarts it on the same port with the same token."""

    def __init__(
        self,
        folder: Path,
        options: VllmOptions | None = None,
        *,
        python: Path | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """`folder` gets the token and the log; `python` is vLLM's interpreter (default: VLLM_ENV, else .venv-vllm)."""
        self.options = options or VllmOptions()
        self.folder = folder
        self.python = (python or places.vllm_python()).absolute()
        self.token_file = folder / "governor.token"
        self.log = folder / "vllm.log"
        self._on_progress = on_progress
        self._port = self.options.port
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        """The port; known once started."""
        if self._port is None:
            raise ServerError("cannot tell the port of a vLLM that was never started: call start() first")
        return self._port

    @property
    def url(self) -> str:
        """Where it serves, without a trailing slash."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """The admin token."""
        return self.token_file.read_text().strip()

    @property
    def pid(self) -> int:
        """The process id of the API server, which is the id of the process group too."""
        if self._process is None:
            raise ServerError("cannot tell the process of a vLLM that was never started: call start() first")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the API server runs."""
        return self._process is not None and self._process.poll() is None

    def check(self) -> None:
        """Raises ServerError with the cause when vLLM has ended by itself."""
        if not self.alive:
            returncode = None if self._process is None else self._process.returncode
            raise ServerError(
                f"vLLM on port {self._port} has ended: {server_log.cause(self._own_log(), returncode)} "
                f"(log: {places.shown(self.log)})"
            )

    async def start(self) -> None:
        """Starts it and returns once /health answers 200; raises ServerError and leaves nothing running otherwise."""
        if self.alive:
            raise ServerError(f"cannot start vLLM: it already runs on port {self._port}; stop it first")
        port = self._choose_port()
        self._write_token()
        started_s = time.monotonic()
        version = await self._version()
        model = await self._tiny_model()
        overlay = self._overlay()
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._process = process_group.start(
            [
                str(self.python),
                "-m",
                "vllm.entrypoints.cli.main",
                *server_options.arguments(self.options, model=model, port=port, version=version),
            ],
            environment=server_options.environment(
                self.options, token_file=self.token_file.absolute(), overlay=overlay, inherited=os.environ
            ),
            log=self.log,
            folder=self.folder,
        )
        try:
            await self._wait_until_healthy(started_s)
        except BaseException:
            await self.stop(patience_s=2.0)
            raise

    async def stop(self, *, patience_s: float = STOP_PATIENCE_S) -> None:
        """Ends it and every process it started: SIGTERM, then SIGKILL after `patience_s`. Idempotent."""
        if self._process is not None:
            # A cancelled wait must not leave the group alive: the thread goes on, and so does this.
            ending = asyncio.ensure_future(asyncio.to_thread(process_group.end, self._process, patience_s=patience_s))
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                process_group.kill(self._process)
                raise
            self._process = None

    def kill(self) -> None:
        """SIGKILL to the server and every process it started, as a crash would."""
        if self._process is not None:
            process_group.kill(self._process)

    async def _wait_until_healthy(self, started_s: float) -> None:
        timeout = aiohttp.ClientTimeout(total=2.0)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                self.check()
                waited_s = time.monotonic() - started_s
                with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
                    async with session.get(f"{self.url}/health") as answer:
                        if answer.status == 200:
                            self._report(waited_s, "serving")
                            return
                doing = server_log.milestone(self._own_log())
                if waited_s > START_LIMIT_S:
                    raise ServerError(
                        f"cannot start vLLM: after {waited_s:.0f} s it is still {doing}; try again on a "
                        f"less busy machine (log: {places.shown(self.log)})"
                    )
                self._report(waited_s, doing)
                await asyncio.sleep(POLL_S)

    def _choose_port(self) -> int:
        wanted = self._port or free_port()
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", wanted))
            except OSError as error:
                raise ServerError(
                    f"cannot start vLLM on port {wanted}: {error.strerror or error}; stop what listens there or choose "
                    "another port"
                ) from error
        self._port = wanted
        return wanted

    def _write_token(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.token_file.exists():
            handle = os.open(self.token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_urlsafe(32) + "\n")

    def _overlay(self) -> Path | None:
        if not self.options.plugin:
            return None
        if not places.PLUGIN_OVERLAY.is_dir():
            raise ServerError(
                f"cannot start vLLM with the plugin: {places.shown(places.PLUGIN_OVERLAY)} is not built; run python3 "
                "bench/environments.py plugin"
            )
        return places.PLUGIN_OVERLAY

    async def _version(self) -> tuple[int, int]:
        code = "from importlib.metadata import version; print(version('vllm'))"
        said = await self._ask("-c", code, purpose="read vLLM's version")
        major, minor = said.strip().split(".")[:2]
        return int(major), int(minor)

    async def _tiny_model(self) -> Path:
        if not (places.TINY_MODEL / "tokenizer_config.json").is_file():
            await self._ask("-m", "bench.tiny_model", str(places.TINY_MODEL), purpose="make the tiny model")
        return places.TINY_MODEL

    async def _ask(self, *arguments: str, purpose: str) -> str:
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        try:
            process = await asyncio.create_subprocess_exec(
                self.python,
                *arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=places.ROOT,
                env=environment,
            )
        except OSError as error:
            raise ServerError(
                f"cannot start vLLM: {self.python} does not run ({error.strerror}); make it with python3 "
                "bench/environments.py vllm or name an environment with VLLM_ENV=path"
            ) from error
        try:
            out, errors = await asyncio.wait_for(process.communicate(), 120.0)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            raise
        if process.returncode != 0:
            raise ServerError(
                f"cannot {purpose}: {server_log.cause(errors.decode(errors='replace'), process.returncode)}"
            )
        return out.decode()

    def _own_log(self) -> str:
        """What this start has logged."""
        try:
            with self.log.open("rb") as file:
                file.seek(self._log_start)
                return file.read().decode(errors="replace")
        except OSError:
            return ""

    def _report(self, waited_s: float, doing: str) -> None:
        if self._on_progress is not None:
            self._on_progress(waited_s, doing)
