"""Two machines, each in a network of its own, joined by a cable: namespaces and a veth pair."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADDRESSES = ["10.231.0.1", "10.231.0.2"]
PORT = 29731


def lacking():
    """Return what is missing here to make networks, in words; None if nothing is."""
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"lacks the command {tool} (Debian: iproute2)"
    try:
        with network():
            return None
    except subprocess.CalledProcessError as error:
        return f"lacks the right to make network namespaces ({error.stderr.decode().strip()[:100]})"


def run(*words):
    subprocess.run(list(map(str, words)), check=True, capture_output=True)


@contextmanager
def network():
    """Make two namespaces with an address each; give the first words of a command in either."""
    names = [f"tallyfold-{os.getpid()}-{number}" for number in range(2)]
    made = []
    try:
        for name in names:
            run("ip", "netns", "add", name)
            made.append(name)
        ends = ["name", "cable0", "netns", names[0], "type", "veth", "peer"]
        run("ip", "link", "add", *ends, "name", "cable0", "netns", names[1])
        for name, address in zip(names, ADDRESSES, strict=True):
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "cable0")
            for link in ("lo", "cable0"):
                run("ip", "-n", name, "link", "set", link, "up")
        yield names
    finally:
        for name in made:
            pull_the_plug(name)
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def slow_down(names, rate):
    """Let the cable carry no more than a rate, either way."""
    for name in names:
        shaped = ["root", "tbf", "rate", rate, "burst", "64kb", "latency", "200ms"]
        run("tc", "-n", name, "qdisc", "replace", "dev", "cable0", *shaped)


def node(names, number, *words, nodes=2):
    """Start a command by torchrun on one of the machines."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", nodes]
    torchrun += ["--nproc-per-node", 1, "--rdzv-backend", "c10d", "--rdzv-id", "machines"]
    torchrun += ["--rdzv-endpoint", f"{ADDRESSES[0]}:{PORT}", "--local-addr", ADDRESSES[number]]
    torchrun += ["--rdzv-conf", f"is_host={number == 0},timeout=120"]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"OMP_NUM_THREADS": "1", "TALLYFOLD_THREADS": "1", "GLOO_SOCKET_IFNAME": "cable0"}
    return subprocess.Popen(
        list(map(str, ["ip", "netns", "exec", names[number], *torchrun, *words])),
        env=os.environ | own | {"PYTHONPATH": path, "TALLYFOLD_PROCESS_TIMEOUT": "20"},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def pull_the_plug(name):
    """Kill all that runs on a machine at once; torchrun's workers have sessions of their own."""
    words = ["ip", "netns", "pids", name]
    for word in subprocess.run(words, check=True, capture_output=True).stdout.split():
        os.kill(int(word), signal.SIGKILL)
