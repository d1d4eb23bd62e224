"""From a rendered DaemonSet to the configuration of a container, as a node's runtime makes it.

Everything of the security context comes from the manifest: capabilities, seccomp, user, read-only
root, no new privileges, host namespaces, volumes. What a runtime adds itself (/proc, /sys, /dev,
masked paths) is as containerd 1.7 does it. Volumes of the host are taken from a made-up node where
it has them, else from this machine.
"""

import json
import os
import platform
from pathlib import Path

# What containerd hides or write-protects unless a container is privileged.
MASKED = ["/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
          "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
# The filter that runtimes of containers use as their default: CRI-O's and Podman's, by Debian.
RUNTIME_DEFAULT = Path("/usr/share/containers/seccomp.json")


def daemonset(documents):
    return next(doc for doc in documents if doc and doc["kind"] == "DaemonSet")


def policies(documents):
    """The texts of the policies, by the names of their files."""
    return next(doc for doc in documents if doc and doc["kind"] == "ConfigMap")["data"]


def container(documents, name, init=False):
    spec = daemonset(documents)["spec"]["template"]["spec"]
    return next(c for c in spec["initContainers" if init else "containers"] if c["name"] == name)


def capabilities(context):
    """What is left of a runtime's default set."""
    wanted = context.get("capabilities", {})
    assert wanted.get("drop") == ["ALL"], "the test knows only containers that drop all capabilities"
    return sorted("CAP_" + name for name in wanted.get("add", []))


def seccomp(profile, caps):
    """A profile in the form of Docker, Podman and the kubelet, resolved for these capabilities."""
    arches = profile.get("archMap", [])
    mine = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}[platform.machine()]
    short = {"x86_64": {"amd64", "x32", "x86"}, "aarch64": {"arm64", "arm"}}[platform.machine()]
    names = [mine] + [sub for arch in arches if arch["architecture"] == mine
                      for sub in arch.get("subArchitectures", [])]
    rules = []
    for rule in profile["syscalls"]:
        needs, unless = rule.get("includes") or {}, rule.get("excludes") or {}
        if not set(needs.get("caps", [])) <= set(caps) or set(unless.get("caps", [])) & set(caps):
            continue
        if needs.get("arches") and not set(needs["arches"]) & short:
            continue
        if set(unless.get("arches", [])) & short:
            continue
        keep = {key: rule[key] for key in ("names", "action", "errnoRet") if key in rule}
        keep["args"] = rule.get("args") or []
        rules.append(keep)
    out = {"defaultAction": profile["defaultAction"], "architectures": names, "syscalls": rules}
    if "defaultErrnoRet" in profile:
        out["defaultErrnoRet"] = profile["defaultErrnoRet"]
    return out


def environment(spec, node):
    """The variables that the manifest names: what the kubelet fills in."""
    fields = {"spec.nodeName": node.name}
    return {e["name"]: fields[e["valueFrom"]["fieldRef"]["fieldPath"]] for e in spec.get("env", [])}


def expanded(words, variables):
    """Arguments with $(NAME) replaced, as the kubelet does it."""
    for name, value in variables.items():
        words = [word.replace(f"$({name})", value) for word in words]
    return words


def config(documents, spec, node, rootfs, without=(), profile=None, hidden=(),
           arguments=()):
    """The OCI configuration of a container of the DaemonSet.

    `without` are capabilities that are taken away, `profile` a file of seccomp in place of the
    manifest's, `hidden` paths that the kernel does not have, `arguments` further ones of the program.
    """
    pod = daemonset(documents)["spec"]["template"]["spec"]
    context = {**pod.get("securityContext", {}), **spec["securityContext"]}
    assert context.get("privileged") is False and pod.get("hostNetwork") is not True
    caps = [cap for cap in capabilities(context) if cap not in without]
    kind = context["seccompProfile"]
    file = profile or {
        "Localhost": lambda: node.path(f"/var/lib/kubelet/seccomp/{kind.get('localhostProfile')}"),
        "RuntimeDefault": lambda: RUNTIME_DEFAULT,
        "Unconfined": lambda: None,
    }[kind["type"]]()
    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc",
         "options": ["nosuid", "noexec", "nodev"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
         "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs",
         "options": ["nosuid", "noexec", "nodev", "ro"]},
    ]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for mount in spec["volumeMounts"]:
        source = node.volume(volumes[mount["name"]])
        access = "ro" if mount.get("readOnly") else "rw"
        mounts.append({"destination": mount["mountPath"], "type": "bind", "source": str(source),
                       "options": ["rbind", "rprivate", access]})
    variables = environment(spec, node)
    namespaces = ["mount", "ipc", "uts", "cgroup"] + ([] if pod.get("hostPID") else ["pid"])
    out = {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": context["runAsUser"], "gid": context["runAsGroup"]},
            "args": ["/usr/bin/isotherm", *expanded(spec["args"], variables), *arguments],
            "env": ["PATH=/usr/bin", *(f"{n}={v}" for n, v in variables.items()), *node.environment],
            "cwd": "/",
            "capabilities": {s: caps for s in ("bounding", "effective", "permitted")},
            "noNewPrivileges": context["allowPrivilegeEscalation"] is False,
        },
        "root": {"path": str(rootfs), "readonly": context["readOnlyRootFilesystem"]},
        "hostname": "isotherm",
        "mounts": mounts,
        "linux": {
            # The network namespace is that of the test, which has one of its own: so it can probe.
            "namespaces": [{"type": name} for name in namespaces],
            "maskedPaths": [*MASKED, *hidden],
            "readonlyPaths": READ_ONLY,
        },
    }
    if file:
        out["linux"]["seccomp"] = seccomp(json.loads(Path(file).read_text()), caps)
    return out


def is_root():
    return os.geteuid() == 0
