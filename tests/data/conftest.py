"""A PostgreSQL server of our own, for the tests that need one."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "postgres"


@pytest.fixture(scope="session")
def postgres_uri() -> Iterator[str]:
    """Start `scripts/postgres`, which stops when its input ends: also if the tests are killed."""
    pytest.importorskip("adbc_driver_postgresql", reason="needs tallyfold[sql]")
    if not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")) and not shutil.which("initdb"):
        pytest.skip("there is no PostgreSQL here; scripts/postgres installs it on Debian")
    server = subprocess.Popen(
        [SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        uri = server.stdout.readline().strip()
        if not uri:
            pytest.fail(f"PostgreSQL did not start: {server.stderr.read()[-500:]}")
        yield uri
    finally:
        server.communicate(timeout=60)
