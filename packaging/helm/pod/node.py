"""A made-up node: cgroups of pods in this machine's cgroup v2, the kubelet's files, and processes.

All of it is removed at the end. Layouts are those of the kubelet with the systemd driver (containerd
and CRI-O) and with the cgroupfs driver.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

MIB = 1 << 20
NOBODY = 65534
# A process of a pod: it maps a file, reads all of it once, and then only the first part. It is of
# another user, as the programs of most pods are, and dumpable as after an exec.
PROGRAM = """
import ctypes, mmap, os, sys, time
os.setgid(int(sys.argv[4])); os.setuid(int(sys.argv[4]))
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
file, size, hot = open(sys.argv[1], "rb"), int(sys.argv[2]), int(sys.argv[3])
memory = mmap.mmap(file.fileno(), size, mmap.MAP_SHARED, mmap.PROT_READ)
for at in range(0, size, 4096): memory[at]
print("mapped", flush=True)
while True:
    for at in range(0, hot, 4096): memory[at]
    time.sleep(0.05)
"""


CGROUPS = Path("/sys/fs/cgroup")


def only_cgroup2():
    """Puts cgroup v2 where nodes of Kubernetes have it, in this mount namespace only."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        front, back = line.split(" - ")
        if back.startswith("cgroup2 "):
            found = front.split(" ")[4]
            if found != str(CGROUPS):
                subprocess.run(["mount", "--bind", found, CGROUPS], check=True)
            return
    sys.exit("error: cgroup v2 is not mounted here")


def systemd(uid, quality, container):
    """The kubelet with the systemd driver; `container` is `cri-containerd-ID` or `crio-ID`."""
    part = f"kubepods-{quality}"
    return f"kubepods.slice/{part}.slice/{part}-pod{uid.replace('-', '_')}.slice/{container}.scope"


def cgroupfs(uid, quality, container):
    """The kubelet with the cgroupfs driver."""
    return f"kubepods/{quality}/pod{uid}/{container}"


class Pod:
    """A pod of one container, and its process."""

    def __init__(self, node, namespace, name, container, layout, runtime=""):
        self.uid, self.id = str(uuid.uuid4()), (uuid.uuid4().hex + uuid.uuid4().hex)
        self.name, self.container = f"{namespace}/{name}", container
        self.cgroup = node.cgroup(layout(self.uid, "burstable", runtime + self.id))
        logs = node.path(f"/var/log/pods/{namespace}_{name}_{self.uid}/{container}")
        logs.mkdir(parents=True)
        link = f"{name}_{namespace}_{container}-{self.id}.log"
        (node.path("/var/log/containers") / link).symlink_to(logs / "0.log")

    def run(self, file, size, hot):
        """Starts its process, and waits until it has read everything once."""
        words = [sys.executable, "-c", PROGRAM, str(file), str(size), str(hot), str(NOBODY)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE,
                                        preexec_fn=lambda: enter(self.cgroup))
        assert self.process.stdout.readline() == b"mapped\n"

    def resident(self):
        """How much of files the process has mapped and resident, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("RssFile:")[1].split()[0]) * 1024


def enter(cgroup):
    (cgroup / "cgroup.procs").write_text(str(os.getpid()))


class Node:
    """The node. `environment` are variables of containers that run on it."""

    environment = []
    name = "node-7.example"

    def __init__(self, root):
        self.root, self.mount = Path(root), CGROUPS
        self.made, self.pods = [], []
        for directory in ("/var/log/pods", "/var/log/containers", "/var/lib/kubelet/seccomp"):
            self.path(directory).mkdir(parents=True)

    def path(self, path):
        return self.root / path.lstrip("/")

    def cgroup(self, path):
        """Makes a cgroup and those above it."""
        at = self.mount
        for part in path.split("/"):
            at = at / part
            if not at.exists():
                at.mkdir()
                self.made.append(at)
        return at

    def pod(self, *words):
        self.pods.append(Pod(self, *words))
        return self.pods[-1]

    def volume(self, volume):
        """Where a volume of a pod is on this node."""
        if "hostPath" in volume:
            path = volume["hostPath"]["path"]
            made = self.path(path)
            if volume["hostPath"].get("type") == "DirectoryOrCreate":
                made.mkdir(parents=True, exist_ok=True)
            return made if made.exists() else Path(path)
        at = self.path(f"/volumes/{volume['name']}")
        at.mkdir(parents=True, exist_ok=True)
        return at

    def configure(self, texts, volume="policies"):
        """Puts the texts of a ConfigMap where a volume has them."""
        at = self.path(f"/volumes/{volume}")
        at.mkdir(parents=True, exist_ok=True)
        # As the kubelet does it: the files are links into a directory that is replaced as a whole.
        # The volume itself stays, since containers have it mounted.
        self.versions = getattr(self, "versions", 0) + 1
        version = f"..2026_11_26.{self.versions}"
        (at / version).mkdir()
        for name, text in texts.items():
            (at / version / name).write_text(text)
        (at / "..new").symlink_to(version)
        (at / "..new").rename(at / "..data")
        for name in texts:
            if not (at / name).is_symlink():
                (at / name).symlink_to(Path("..data") / name)
        for old in at.iterdir():
            if old.name.startswith("..2026") and old.name != version:
                shutil.rmtree(old)
            elif not old.name.startswith("..") and old.name not in texts:
                old.unlink()

    def forget(self):
        """What the agent kept ends with its pod."""
        for name in ("state", "run"):
            at = self.path(f"/volumes/{name}")
            shutil.rmtree(at, ignore_errors=True)
            at.mkdir(parents=True)

    def remove(self):
        for pod in self.pods:
            process = getattr(pod, "process", None)
            if process:
                process.send_signal(signal.SIGKILL)
                process.wait()
                process.stdout.close()
        for cgroup in reversed(self.made):
            for _ in range(200):
                try:
                    cgroup.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    # The kernel lets go of the last process a moment later.
                    time.sleep(0.02)
        shutil.rmtree(self.root, ignore_errors=True)
