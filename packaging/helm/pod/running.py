"""A container that crun runs, and what its probes and metrics say."""

import contextlib
import fcntl
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import uuid
from pathlib import Path

from node import enter, systemd

# How long anything may take on a machine that does other things as well, in seconds.
PATIENCE = 90


def loopback_up():
    """The test runs in a network namespace of its own, as a pod does."""
    with socket.socket() as sock:
        name = struct.pack("16sh", b"lo", 1)
        fcntl.ioctl(sock.fileno(), 0x8914, name)


def rootfs(program, at):
    """The image's files. A dynamic program brings its libraries: only in this test."""
    at = Path(at)
    for name in ("etc/isotherm/policies.d", "run/isotherm", "usr/bin", "var/lib/isotherm",
                 "var/log/pods", "var/log/containers", "proc", "sys", "dev", "seccomp"):
        (at / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(program, at / "usr/bin/isotherm")
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+\.so\S*)", libraries):
        to = at / library.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(library), to)
    return at


def doing(pid):
    """What each thread of a process is at: its name, its state, its wait, and its kernel stack."""
    lines = []
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        found = {}
        for name in "comm", "wchan", "syscall", "stack", "status":
            try:
                found[name] = (task / name).read_text().strip()
            except OSError as err:
                found[name] = err.strerror
        state = re.search(r"State:\s*(\S+)", found["status"])
        lines.append(f"{task.name} {found['comm']}: {state[1] if state else '?'} in {found['wchan']}, "
                     f"system call {found['syscall']}\n{found['stack']}\n")
    return "".join(lines)


def children(pid):
    """The processes that it has started, or taken over, and that nobody has waited for."""
    found = [file.read_text().split() for file in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for of_task in found for child in of_task]


class Running:
    """A container from its start to its end; for `with`."""

    def __init__(self, node, config, port, work):
        self.node, self.port, self.work = node, port, Path(work)
        self.name = "isotherm-test-" + uuid.uuid4().hex[:12]
        self.crun = ["crun", "--root", str(self.work / "crun"), "--cgroup-manager=disabled"]
        bundle = self.work / self.name
        bundle.mkdir(parents=True)
        (bundle / "config.json").write_text(json.dumps(config))
        self.bundle, self.log = bundle, bundle / "log"

    def __enter__(self):
        uid = str(uuid.uuid4())
        cgroup = self.node.cgroup(systemd(uid, "burstable", "cri-containerd-" + "e" * 64))
        self.node.forget()
        pid_file = self.bundle / "pid"
        self.started = time.monotonic()
        with self.log.open("wb") as log:
            words = [*self.crun, "run", "--bundle", self.bundle, "--pid-file", pid_file, self.name]
            self.process = subprocess.Popen(words, stdout=log, stderr=log,
                                            preexec_fn=lambda: enter(cgroup))
        self.pid_file = pid_file
        return self

    def __exit__(self, *_):
        pid = self.pid()
        if self.process.poll() is None and pid:
            os.kill(pid, signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            # crun waits for what the container's process has left behind as well.
            left = children(self.process.pid)
            where = "".join(map(doing, [self.process.pid, *left]))
            for child in left:
                os.kill(child, signal.SIGKILL)
            raise AssertionError(f"SIGTERM did not end it within {PATIENCE} s\n{where}{self.said()}")
        finally:
            # What even SIGKILL does not end is left behind.
            with contextlib.suppress(subprocess.TimeoutExpired):
                words = [*self.crun, "delete", "-f", self.name]
                subprocess.run(words, capture_output=True, timeout=PATIENCE)

    def pid(self):
        """The process in the container; none if it never began."""
        return int((self.pid_file.exists() and self.pid_file.read_text().strip()) or 0)

    def said(self):
        return self.log.read_text(errors="replace")

    def get(self, path):
        """The status and the text of an answer; (0, why) if there is none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError as err:
            return 0, str(err)
        finally:
            connection.close()

    def until(self, what, is_so):
        """Waits until `is_so` returns something, and returns that."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            assert self.process.poll() is None, f"{what}: the container has ended\n{self.said()}"
            found = is_so()
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"{what}: never. readiness: {self.get('/readyz')}\n{self.said()}")

    def ready(self):
        """Waits until it is ready. Returns how long that took from its start, in seconds."""
        self.until("ready", lambda: self.get("/readyz")[0] == 200)
        return time.monotonic() - self.started

    def metrics(self, name, **labels):
        """The samples of a metric with these labels: the labels and the value of each."""
        found = []
        for line in self.get("/metrics")[1].splitlines():
            parts = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line)
            if parts and parts[1] == name:
                has = dict(re.findall(r'(\w+)="([^"]*)"', parts[2]))
                if all(has.get(key) == value for key, value in labels.items()):
                    found.append((has, float(parts[3])))
        return found

    def total(self, name, **labels):
        return sum(value for _, value in self.metrics(name, **labels))
