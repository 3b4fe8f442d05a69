"""How the command answers to right and wrong use, without any cluster."""

from __future__ import annotations

import inspect
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from epoka.cli.commands import CLIENT_CONFIG, Command
from epoka.cli.main import TABLE
from tests.cli.commands import COMMAND, Outcome, epoka, inside, is_one_line

HEAVY = (
    *("asyncio", "typing", "pathlib", "msgspec", "numpy", "uvloop", "rich", "confluent_kafka"),
    *("epoka.cluster", "epoka.node", "epoka.wire"),
)


def every_command() -> list[tuple[str, Command]]:
    found = []
    for entry in TABLE:
        known = entry.load()
        if isinstance(known, Command):
            found.append((entry.name, known))
        else:
            found += [(f"{entry.name} {verb.name}", verb) for verb in known]
    return found


def test_help_names_every_command() -> None:
    outcome = epoka("--help")
    assert outcome.code == 0
    for entry in TABLE:
        assert f"\n  {entry.name} " in outcome.out


def test_help_imports_nothing_heavy() -> None:
    paths = ["", *(path for path, _ in every_command())]
    program = (
        "import sys\n"
        "from epoka.cli.main import run\n"
        f"for path in {paths!r}:\n"
        "    try:\n        run([*path.split(), '--help'])\n    except SystemExit:\n        pass\n"
        f"    for name in {HEAVY!r}:\n"
        "        if name in sys.modules:\n            sys.exit(f'`epoka {path}` imports {name}')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    for path in paths:
        assert f"Usage: epoka {path}".rstrip() in done.stdout


@pytest.mark.parametrize(("path", "command"), every_command(), ids=[path for path, _ in every_command()])
def test_a_command_takes_what_its_function_takes(path: str, command: Command) -> None:
    declared = {action.dest for action in command.parser(path)._actions} - {"help", CLIENT_CONFIG}
    assert declared == set(inspect.signature(command.function()).parameters)


def test_a_word_that_is_nearly_right_is_suggested() -> None:
    outcome = epoka("topic", "creat", "orders")
    assert outcome.code == 2
    assert is_one_line(outcome)
    assert "did you mean 'create'?" in outcome.err


def test_the_version_is_told_in_both_ways() -> None:
    plain, in_json = epoka("version"), epoka("version", "--json")
    assert plain.code == in_json.code == 0
    assert plain.out.strip() == f"epoka {in_json.json['epoka']}"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nonsense"], "nonsense"),
        (["up", "--brokers", "many"], "--brokers"),
        (["up", "--brokers", "0"], "1 to 99 brokers"),
        (["up", "--mode", "raft"], "there is no mode 'raft'"),
        (["up", "--level", "magic"], "no feature level 'magic'"),
        (["up", "--config", "min.insync.replicas"], "key=value"),
        (["up", "--config", "min.insync.replica=1"], "min.insync.replica is not a known key"),
        (["up", "--port", "70000"], "there is no port 70000"),
        (["broker"], "--config"),
        (["topic", "list", "--bootstrap", "nowhere"], "host:port"),
        (["topic", "create"], "TOPIC"),
        (["topic", "describe", "a[.", "--bootstrap", "localhost:1"], "no regular expression"),
        (["topic", "create", "t", "--config", "x", "--bootstrap", "localhost:1"], "key=value"),
        (["status", "--bootstrap", "localhost:1", "--data", "/tmp"], "give one"),
        (["node", "bounce", "one"], "NODE"),
        (["why", "broker", "two"], "BROKER"),
        (["config", "show", "moon"], "topic|broker"),
        (["config", "set", "topic", "t", "--bootstrap", "localhost:1"], "nothing to set"),
        (["config", "set", "broker", "one", "a=b", "--bootstrap", "localhost:1"], "by its id"),
        (["level", "raise", "magic", "--bootstrap", "localhost:1"], "no feature level 'magic'"),
        (["ledger", "--file", "a", "--bootstrap", "localhost:1"], "give one"),
        (["completion", "cmd"], "bash, zsh, fish"),
        (["config", "show", "broker", "²", "--bootstrap", "localhost:1"], "by its id"),
        (["config", "show", "broker", "٣", "--bootstrap", "localhost:1"], "by its id"),
        (["topic", "create", "a", "--topic", "b", "--bootstrap", "localhost:1"], "'a' and 'b'; give one"),
        (["topic", "list", "--topic", "b", "a", "--bootstrap", "localhost:1"], "'b' and 'a'; give one"),
    ],
)
def test_wrong_use_ends_with_code_2_and_one_line(arguments: list[str], text: str) -> None:
    # A cluster in the foreground listens to signals, so it has a process of its own.
    outcome = epoka(*arguments) if arguments[0] == "up" else inside(*arguments)
    assert outcome.code == 2
    assert is_one_line(outcome), outcome
    assert text in outcome.err


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "cannot be read"),
        ("security.protocol=TLS", "security.protocol is PLAINTEXT"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI", "only PLAIN is"),
    ],
)
def test_a_bad_client_file_is_wrong_use(tmp_path: Path, content: str | None, text: str) -> None:
    path = tmp_path / "client.properties"
    if content is not None:
        path.write_text(content)
    outcome = inside("topic", "list", "--bootstrap", "localhost:1", "--command-config", str(path))
    assert outcome.code == 2
    assert is_one_line(outcome) and text in outcome.err


@pytest.mark.parametrize("words", ["version", "--help", "topic create --help", "simulate --rules --json"])
def test_a_full_disk_is_one_line(words: str) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    run = [*COMMAND, *words.split()]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(run, stdout=full, stderr=subprocess.PIPE, text=True, timeout=100, env=buffered)
    assert done.returncode == 1
    assert done.stderr == "epoka: No space left on device\n"


@pytest.mark.parametrize(
    ("words", "closed", "text"),
    [
        ("produce t -b localhost:1", "<&-", "standard input is closed"),
        ("consume t -e -b localhost:1", ">&-", "standard output is closed"),
    ],
)
def test_what_is_closed_is_named(words: str, closed: str, text: str) -> None:
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, *words.split()]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=100)
    outcome = Outcome(done.returncode, done.stdout, done.stderr)
    assert outcome.code == 1 and is_one_line(outcome) and text in outcome.err, outcome


def test_a_terminal_that_does_not_know_its_width_gets_the_widest_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # So says a terminal that nobody has told its size, such as that of `script` or `docker run -t`.
    monkeypatch.setattr(os, "get_terminal_size", lambda: os.terminal_size((0, 0)))
    outcome = inside("topic", "create", "--help")
    assert 80 < max(map(len, outcome.out.splitlines())) <= 100


def test_no_command_shows_the_help() -> None:
    outcome = epoka()
    assert outcome.code == 2
    assert "Usage: epoka" in outcome.err


def test_a_cluster_that_is_not_there_ends_with_code_1(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        for arguments in (
            ["status", "--bootstrap", address],
            ["status", "--controller", address],
            ["status", "--data", str(tmp_path)],
            ["topic", "list", "--bootstrap", address],
            ["group", "list", "--bootstrap", address],
            ["produce", "t", "--bootstrap", address],
            ["consume", "t", "--bootstrap", address],
            ["config", "show", "topic", "t", "--bootstrap", address],
            ["level", "show", "--bootstrap", address],
            ["ledger", "--bootstrap", address],
            ["why", "produce", "--bootstrap", address],
            ["node", "kill", "1", "--data", str(tmp_path)],
        ):
            outcome = inside(*arguments)
            assert outcome.code == 1, arguments
            assert is_one_line(outcome), outcome


def test_something_that_is_not_kafka_is_recognised() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        asking = subprocess.Popen(
            [sys.executable, "-m", "epoka.cli.main", "topic", "list", "--bootstrap", f"{host}:{port}"],
            stderr=subprocess.PIPE,
            text=True,
        )
        peer, _ = server.accept()
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        _, complaint = asking.communicate(timeout=60)
        peer.close()
    assert asking.returncode == 1
    assert "does not speak the Kafka protocol" in complaint


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        outcome = epoka("up", "--brokers", "1", "--port", str(port))
    assert outcome.code == 1
    assert is_one_line(outcome), outcome
    assert f"port {port} on 127.0.0.1 is in use" in outcome.err


class TestNodeFiles:
    """`epoka broker` and `epoka controller` read their files carefully."""

    def test_every_bad_key_is_named_with_its_line(self, tmp_path: Path) -> None:
        path = tmp_path / "node.properties"
        path.write_text("node.id=1\nlog.dirs=/tmp/x\nlog.dir.s=2\nnum.partitions=zero\n")
        outcome = epoka("broker", "--config", str(path))
        assert outcome.code == 2
        assert f"{path}:3: log.dir.s is not a known key" in outcome.err
        assert f"{path}:4: num.partitions" in outcome.err
        assert all(line.startswith("epoka: ") for line in outcome.err.splitlines())

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        outcome = epoka("controller", "--config", str(tmp_path / "none"))
        assert outcome.code == 2
        assert is_one_line(outcome), outcome

    def test_a_file_of_another_role(self, tmp_path: Path) -> None:
        path = tmp_path / "node.properties"
        path.write_text(
            f"node.id=1\nprocess.roles=controller\nlog.dirs={tmp_path}/d\nlisteners=CONTROL://127.0.0.1:0\n"
        )
        outcome = epoka("broker", "--config", str(path))
        assert outcome.code == 2
        assert "process.roles is controller; this command runs a broker" in outcome.err

    def test_a_broker_on_a_port_in_use_says_so(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            path = tmp_path / "node.properties"
            path.write_text(
                f"node.id=1\nprocess.roles=broker,controller\nlog.dirs={tmp_path}/d\n"
                f"listeners=PLAINTEXT://127.0.0.1:{port}\n"
            )
            outcome = epoka("broker", "--config", str(path))
        assert outcome.code == 1
        assert f"cannot listen on PLAINTEXT://127.0.0.1:{port}" in outcome.err
        assert "Traceback" not in outcome.err
