"""The files in deploy/ are what they say: pinned, on the loopback address, without secrets, understood."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

import pytest
import typer
import yaml

import anoncore
from flows.plan.schedule import check_cron
from tasks.common.errors import ExitCode

DEPLOY = Path(__file__).parents[2] / "deploy"
APP = ("prefect", "mlflow", "worker")
QUIET = {
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GX_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_V2_ENABLED": "false",
}
TEXTS = sorted(
    path
    for path in (
        *DEPLOY.glob("*"),
        *DEPLOY.glob("proxy/*"),
        *DEPLOY.glob("cluster/*"),
        *DEPLOY.glob("systemd/**/*"),
        DEPLOY / "secrets/README.md",
    )
    if path.is_file() and path.name != "__init__.py"
)
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


class _Compose(yaml.SafeLoader):
    """Reads Compose's own tag, too."""


_Compose.add_constructor("!override", lambda loader, node: loader.construct_sequence(node))


def _read(name: str) -> dict[str, Any]:
    with open(DEPLOY / name, encoding="utf-8") as file:
        found: dict[str, Any] = yaml.load(file, _Compose)
    return found


COMPOSE = _read("compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


# Compose


def test_compose_has_the_five_parts() -> None:
    assert set(SERVICES) == {"postgres", "prefect", "mlflow", "worker", "proxy"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_hardened_and_looked_after(name: str) -> None:
    service = SERVICES[name]
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["restart"] == "unless-stopped"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["user"].split(":")[0] not in ("0", "root")
    assert "privileged" not in service
    assert service["ulimits"]["core"] == 0
    assert set(service.get("cap_add", [])) <= ({"NET_BIND_SERVICE"} if name == "proxy" else set())


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned(name: str) -> None:
    image = SERVICES[name]["image"]
    if "build" in SERVICES[name]:
        assert re.fullmatch(r"anonflow:\d+\.\d+\.\d+", image)
    else:
        assert re.fullmatch(r"[a-z/.]+:\d+\.\d+(\.\d+)?-[a-z0-9.]+@sha256:[0-9a-f]{64}", image)


def test_our_image_has_our_version_and_a_pinned_base() -> None:
    assert {SERVICES[name]["image"] for name in APP} == {f"anonflow:{anoncore.__version__}"}
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert set(bases) == {"${PYTHON}"}
    # A syntax line has the builder fetch and run another image, by a tag that moves.
    assert not any(line.lower().startswith("# syntax") for line in lines)
    assert any(re.fullmatch(r"ARG PYTHON=python:3\.11\.\d+-slim-\w+@sha256:[0-9a-f]{64}", x) for x in lines)
    assert any(line.startswith("USER 10001") for line in lines)
    assert any("--require-hashes" in line for line in lines)


def test_the_image_is_made_of_files_that_are_there() -> None:
    for line in (DEPLOY / "Containerfile").read_text().splitlines():
        if line.startswith("COPY ") and not line.startswith("COPY --from"):
            for source in line.split()[1:-1]:
                assert (DEPLOY.parent / source).exists(), source
    ignored = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    assert "*" in ignored
    assert not any(name.startswith(("deploy/secrets", ".venv", ".anonflow")) for name in kept)


def test_volumes_are_mounted_on_folders_that_belong_to_the_user_of_the_image() -> None:
    made = (DEPLOY / "Containerfile").read_text().split("-o anonflow -g anonflow ")[1].splitlines()[0].split()
    services = [SERVICES[name] for name in APP] + [*_read("compose.cluster.yaml")["services"].values()]
    volumes = [volume for service in services for volume in service.get("volumes", ()) if isinstance(volume, str)]
    assert {volume.split(":")[1] for volume in volumes} == {"/var/lib/anonflow", "/srv/columns"} <= set(made)


def test_only_the_proxy_publishes_ports_and_on_the_loopback_address() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert set(published) == {"proxy"}
    assert all(port.startswith("127.0.0.1:") for port in published["proxy"])


def test_only_the_proxy_has_a_way_out() -> None:
    assert COMPOSE["networks"]["inner"]["internal"] is True
    for name, service in SERVICES.items():
        expected = ["inner", "outer"] if name == "proxy" else ["inner"]
        assert service["networks"] == expected
        assert "network_mode" not in service


@pytest.mark.parametrize("name", APP)
def test_nobody_is_called(name: str) -> None:
    told = SERVICES[name]["environment"]
    assert {key: told[key] for key in QUIET} == QUIET


def test_secrets_come_from_files_that_git_passes_over() -> None:
    for secret in COMPOSE["secrets"].values():
        assert set(secret) == {"file"}
        assert secret["file"].startswith("./secrets/")
    lines = (DEPLOY.parent / ".gitignore").read_text().splitlines()
    assert "deploy/secrets/*" in lines
    named = {s if isinstance(s, str) else s["source"] for v in SERVICES.values() for s in v.get("secrets", [])}
    assert named == set(COMPOSE["secrets"])
    # Prefect knows the worker's runs by what both have.
    shared = {"source": "runs", "target": "/var/lib/anonflow/secrets/runs"}
    assert [name for name, service in SERVICES.items() if shared in service.get("secrets", [])] == ["prefect", "worker"]
    told = (DEPLOY / "secrets/README.md").read_text()
    assert all(f"`{name}`" in told for name in named)


def test_only_the_worker_sees_the_home_of_keys_and_records() -> None:
    holders = [n for n, v in SERVICES.items() if any("home:" in str(x) for x in v.get("volumes", []))]
    assert holders == ["worker"]


def test_parts_start_after_what_they_need() -> None:
    needs = {name: set(service.get("depends_on", {})) for name, service in SERVICES.items()}
    assert needs["prefect"] == needs["mlflow"] == {"postgres"}
    assert needs["worker"] == needs["proxy"] == {"prefect", "mlflow"}
    for service in SERVICES.values():
        assert all(v["condition"] == "service_healthy" for v in service.get("depends_on", {}).values())


def test_a_tls_override_listens_where_it_is_told_to() -> None:
    proxy = _read("compose.tls.yaml")["services"]["proxy"]
    assert all(port.startswith("${ANONFLOW_ADDRESS:?") for port in proxy["ports"])
    pages = _read("compose.tls.yaml")["services"]["worker"]["environment"]
    assert set(pages) == {"ANONFLOW_PREFECT_PAGE", "ANONFLOW_MLFLOW_PAGE"} <= set(SERVICES["worker"]["environment"])
    assert "Strict-Transport-Security" in (DEPLOY / "proxy/Caddyfile.tls").read_text()
    for plain in ("Caddyfile", "headers.caddy"):
        assert "Strict-Transport-Security" not in (DEPLOY / "proxy" / plain).read_text()


def test_parts_of_a_cluster_are_hardened_and_speak_tls_alone() -> None:
    services = _read("compose.cluster.yaml")["services"]
    documents = list(yaml.safe_load_all((DEPLOY / "cluster/kubernetes.yaml").read_text()))
    spec = next(one for one in documents if one["kind"] == "DaskCluster")["spec"]
    for name, part in (("scheduler", "scheduler"), ("cluster-worker", "worker")):
        service, pod = services[name], spec[part]["spec"]
        container = pod["containers"][0]
        assert (service["read_only"], service["cap_drop"], service["networks"]) == (True, ["ALL"], ["cluster"])
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert pod["securityContext"]["runAsNonRoot"]
        settings = {setting["name"]: setting["value"] for setting in container["env"]}
        for command, given in ((service["command"], service["environment"]), (container["args"], settings)):
            assert {"--tls-ca-file", "--tls-cert", "--tls-key", "--no-dashboard"} <= set(command)
            assert given["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "True"
            assert given["DASK_DISTRIBUTED__WORKER__MEMORY__SPILL"] == "False"
        assert service["image"] == container["image"] == f"anonflow-cluster:{anoncore.__version__}"
        assert "ports" not in service
    assert _read("compose.cluster.yaml")["networks"]["cluster"]["internal"]


def test_jobs_of_kubernetes_are_hardened_and_end_with_outcomes() -> None:
    documents = list(yaml.safe_load_all((DEPLOY / "cluster/workers.yaml").read_text()))
    claim, network, job = documents
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    spec = job["spec"]["jobTemplate"]["spec"]
    pod = spec["template"]
    assert network["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert network["spec"]["ingress"] == []
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert not pod["spec"]["automountServiceAccountToken"]
    for container in pod["spec"]["initContainers"] + pod["spec"]["containers"]:
        assert container["image"] == f"anonflow:{anoncore.__version__}"
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        # A folder of secrets holds links, which are refused.
        assert all("subPath" in mount for mount in container["volumeMounts"] if mount["name"] == "secrets")
    (rule,) = spec["podFailurePolicy"]["rules"]
    outcomes = [ExitCode.REFUSED, ExitCode.REJECTED, ExitCode.AWAITING]
    assert rule["onExitCodes"] == {"containerName": "run", "operator": "In", "values": outcomes}
    check_cron(job["spec"]["schedule"])
    assert job["spec"]["timeZone"] in available_timezones()


def test_docker_compose_reads_the_files() -> None:
    program = shutil.which("docker")
    if program is None or subprocess.run([program, "compose", "version"], capture_output=True).returncode:
        pytest.skip("docker compose is not installed")
    names = {f"ANONFLOW_{name}": f"{name.lower()}.example.org" for name in ("PREFECT_NAME", "MLFLOW_NAME")}
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "ANONFLOW_ADDRESS": "192.0.2.1",
        "ANONFLOW_SMTP": "smtp://relay:25",
        "ANONFLOW_MAIL_TO": "ann@example.org",
    }
    for more in ([], ["compose.tls.yaml"], ["compose.mail.yaml"], ["compose.cluster.yaml"]):
        files = ["compose.yaml", *more]
        chosen = [part for name in files for part in ("-f", str(DEPLOY / name))]
        ran = subprocess.run(
            [program, "compose", *chosen, "config", "--quiet"],
            env=environment | names,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr


# Secrets


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_no_password_stands_in_a_file(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"://[^/@\s:]+:[^@\s/]+@", text), "an address with a password"
    assert not re.search(r"-----BEGIN", text)
    given = re.findall(r"(?im)^[^#\n]*?\b(?:\w*password|\w*secret_key|\w*auth_string|\w*token)\s*[:=]\s*(\S+)", text)
    harmless = re.compile(r'false$|["\']?\$[({]|["\']?\$C|anonflow:\$|"anonflow:\$\(|\\n')
    assert [value for value in given if not harmless.match(value)] == []


# The proxy


def test_pages_may_talk_to_their_own_server_only() -> None:
    text = (DEPLOY / "proxy/headers.caddy").read_text()
    found = re.search(r'Content-Security-Policy "([^"]+)"', text)
    assert found is not None
    policy = {part.split()[0]: part.split()[1:] for part in found[1].split("; ")}
    assert policy["default-src"] == ["'self'"]
    assert policy["frame-ancestors"] == ["'none'"]
    assert policy["form-action"] == policy["base-uri"] == ["'self'"]
    local = {"'self'", "'none'", "'unsafe-inline'", "'unsafe-eval'", "data:", "blob:"}
    assert all(set(sources) <= local for sources in policy.values())
    for name in ("Caddyfile", "Caddyfile.tls"):
        config = (DEPLOY / "proxy" / name).read_text()
        assert "admin off" in config
        assert "auto_https off" in config
        assert "import headers.caddy" in config
        assert "reverse_proxy prefect:4200" in config
        assert "reverse_proxy mlflow:5000" in config


def test_caddy_reads_its_file() -> None:
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("caddy is not installed")
    command = [program, "validate", "--adapter", "caddyfile", "--config", "Caddyfile"]
    ran = subprocess.run(command, cwd=DEPLOY / "proxy", capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


# Services


def _settings(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_is_hardened(path: Path) -> None:
    found = _settings(path)
    expected = {
        "User": "anonflow",
        "UMask": "0077",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "PrivateTmp": "yes",
        "CapabilityBoundingSet": "",
        "StateDirectoryMode": "0700",
        "LimitCORE": "0",
        "IPAddressDeny": "any",
        "Restart": "always",
        "PartOf": "anonflow.target",
    }
    assert {key: found.get(key) for key in expected} == {key: [value] for key, value in expected.items()}
    told = dict(pair.split("=", 1) for line in found["Environment"] for pair in line.split())
    assert {key: told.get(key) for key in QUIET} == QUIET
    assert found["ExecStart"][0].endswith(f" --only {path.stem.removeprefix('anonflow-')}")


def test_the_target_starts_every_unit() -> None:
    wanted = _settings(DEPLOY / "systemd/anonflow.target")["Wants"][0].split()
    assert sorted(wanted) == [path.name for path in UNITS]
    assert {path.stem for path in UNITS} == {f"anonflow-{part}" for part in APP}


def test_systemd_reads_the_units(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    shutil.copytree(DEPLOY / "systemd", tmp_path / "units")
    for path in (tmp_path / "units").glob("*.service"):
        assert "ExecStart=/opt/anonflow/bin/anonflow serve " in path.read_text()
        path.write_text(path.read_text().replace("/opt/anonflow/bin/anonflow", shutil.which("true") or "/bin/true"))
    files = [str(path) for path in sorted((tmp_path / "units").glob("anonflow*")) if path.is_file()]
    ran = subprocess.run(
        [program, "verify", "--man=no", "--recursive-errors=no", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    if "Failed to initialize manager" in ran.stderr:
        pytest.skip("systemd cannot read units here")
    complaints = [line for line in ran.stderr.splitlines() if "anonflow" in line]
    assert (ran.returncode, complaints) == (0, [])


# Deployments in a file


@pytest.fixture(scope="module")
def declared() -> dict[str, Any]:
    return _read("prefect.yaml")


def test_deployments_have_a_clock_with_a_time_zone_and_a_limit(declared: dict[str, Any]) -> None:
    assert declared["deployments"]
    for deployment in declared["deployments"]:
        assert deployment["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}
        assert deployment["work_pool"]["name"] == "anonflow"
        assert deployment["schedules"]
        for schedule in deployment["schedules"]:
            check_cron(schedule["cron"])
            assert schedule["timezone"] in available_timezones()


def test_deployments_name_plans_that_are_there_and_are_no_plan_of_the_worker(
    declared: dict[str, Any],
) -> None:
    plans = {yaml.safe_load(path.read_text())["name"] for path in (DEPLOY / "plans").glob("*.yaml")}
    for deployment in declared["deployments"]:
        assert set(deployment["parameters"]) == {"plan"}
        assert deployment["parameters"]["plan"] in plans
        # The worker owns the deployments that are named like plans, or carry its tag.
        assert deployment["name"] not in plans
        assert "anonflow" not in deployment["tags"]


ASK_PREFECT = """
import inspect, sys
from pathlib import Path
import yaml
from flows import embedded
embedded.apply(Path(sys.argv[2]))
import prefect
from prefect.cli.deploy._models import ConcurrencyLimitSpec, PrefectYamlModel, RawScheduleConfig
from prefect.client.schemas.objects import ConcurrencyLimitStrategy
from prefect.client.schemas.schedules import CronSchedule
from flows.served.deployments import ENTRYPOINT, TAG
from flows.served.settings import POOL

model = PrefectYamlModel.model_validate(yaml.safe_load(Path(sys.argv[1]).read_text()))
assert model.prefect_version == prefect.__version__
assert (model.build, model.push, model.pull) == ([], [], [])
for deployment in model.deployments:
    assert deployment.entrypoint == ENTRYPOINT and TAG not in deployment.tags
    flow = prefect.flows.load_flow_from_entrypoint(deployment.entrypoint)
    inspect.signature(flow.fn).bind(**deployment.parameters)
    assert deployment.work_pool.name == POOL
    # The worker would not follow them.
    assert not deployment.work_pool.job_variables
    assert isinstance(deployment.concurrency_limit, ConcurrencyLimitSpec)
    ConcurrencyLimitStrategy(deployment.concurrency_limit.collision_strategy)
    for schedule in deployment.schedules:
        assert isinstance(schedule, RawScheduleConfig)
        CronSchedule(cron=schedule.cron, timezone=schedule.timezone)
print(len(model.deployments))
"""


def test_prefect_reads_the_deployments(declared: dict[str, Any], tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ASK_PREFECT, str(DEPLOY / "prefect.yaml"), str(tmp_path / "home")],
        cwd=DEPLOY.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.split() == [str(len(declared["deployments"]))], ran.stderr


# What the parts are started with, and what the guide tells to type


def _options(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that words begin with, and what is left of them."""
    from flows.cli import app

    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        assert words, "a group of commands alone"
        if words[0] == "--help":
            break
        assert words[0] in command.commands, f"there is no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    return command, words


def _check(words: list[str]) -> None:
    command, left = _options(words)
    known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)} | {"--help"}
    assert [word for word in left if word.startswith("--") and word not in known] == []


@pytest.mark.parametrize("name", APP)
def test_containers_start_commands_that_exist(name: str) -> None:
    words = SERVICES[name]["command"]
    _check(words)
    assert words[words.index("--only") + 1] == name


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_units_start_commands_that_exist(path: Path) -> None:
    _check(shlex.split(_settings(path)["ExecStart"][0])[1:])


def _typed(text: str) -> list[list[str]]:
    """Return what the guide tells to type after anonflow, or after its own short name for it."""
    codes = re.findall(r"`([^`\n]+)`", text)
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        codes += block.replace("\\\n", " ").splitlines()
    begin = re.compile(r"^(?:releases|anonflow)\s+(\S.*)|--no-deps -T worker (audit .*)|; releases (.*)")
    found = []
    for code in codes:
        if (match := begin.search(code.strip())) and not code.strip().startswith("releases()"):
            words = next(part for part in match.groups() if part)
            found.append(re.split(r"\s[|;&>…]", words)[0].replace('"', "").split())
    return found


def test_the_guide_tells_of_commands_that_exist() -> None:
    commands = _typed((DEPLOY / "GUIDE.md").read_text(encoding="utf-8"))
    assert len(commands) > 20
    for words in commands:
        _check(words)
    told = {tuple(words[:2]) for words in commands if words[0] == "audit"}
    assert {("audit", name) for name in ("verify", "export", "rotate-key", "resume", "mirror")} <= told


def test_the_guide_names_files_that_are_there() -> None:
    text = (DEPLOY / "GUIDE.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        assert target.startswith("https://") or (DEPLOY / target).exists(), target
    for target in re.findall(r"-f (deploy/[\w.]+)", text):
        assert target == "deploy/compose.override.yaml" or (DEPLOY.parent / target).exists(), target
