"""vLLM on a host."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections

from tests.support.deployments import deployment, member


def values(command: list[str]) -> dict[str, str]:
    """The options of a command, --name=value and --name value alike."""
    found: dict[str, str] = {}
    for option, following in zip(command, [*command[1:], ""], strict=True):
        if option.startswith("--"):
            name, equals, value = option.partition("=")
            found[name] = value if equals else "" if following.startswith("--") else following
    return found


def test_vllm_on_one_host() -> None:
    sections = host_sections(member(executor="uni", ranks=(1,)))
    container = sections["vllm"]["container"]
    assert container["entrypoint"] == ["/bin/bash", "/llm/start-vllm.sh", "0"]
    assert container["command"][:5] == [
        *("python3", "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", "/opt/llm/models/lab--tiny"),
    ]
    given = values(container["command"])
    assert (given["--port"], given["--served-model-name"]) == ("8000", "lab/tiny")
    assert container["pid_mode"] == ""
    assert container["environment"]["HF_HUB_OFFLINE"] == "1"
    assert "RAY_ADDRESS" not in container["environment"]
    assert not sections["ray"]["needed"]


def test_vllm_with_ray() -> None:
    made = deployment("ray", (2, 1))
    head, worker = (host_sections(made.of(name))["vllm"] for name in made.hosts)
    # It waits for every GPU of the plan.
    assert head["container"]["entrypoint"] == ["/bin/bash", "/llm/start-vllm.sh", "3"]
    assert head["container"]["environment"]["RAY_ADDRESS"] == "10.0.0.1:6379"
    assert head["container"]["pid_mode"] == "host"
    assert (worker["needed"], worker["container"]) == (False, {})
    assert worker["ranks"] == head["ranks"] == ["gpu1", "gpu1", "gpu2"]


def test_vllm_on_several_hosts_without_ray() -> None:
    made = deployment("mp", (1, 1, 0), vllm_version="0.20.0", vllm_served_model_name="tiny", vllm_master_port=29600)
    head, worker, idle = (host_sections(made.of(name))["vllm"] for name in made.hosts)
    assert head["container"]["entrypoint"] == ["/bin/bash", "/llm/start-vllm.sh", "0"]
    assert worker["container"]["entrypoint"] == ["python3", "/llm/follow_head.py", "10.0.0.1", "29600"]
    for rank, section in enumerate((head, worker)):
        assert section["container"]["command"] == [
            *("vllm", "serve", "/opt/llm/models/lab--tiny", "--config", "/llm/vllm.yaml")
        ]
        assert section["config"]["path"] == "/opt/llm/scripts/vllm.yaml"
        given = section["config"]["content"]
        assert (given["nnodes"], given["node-rank"]) == (2, rank)
        assert (given["master-addr"], given["master-port"]) == ("10.0.0.1", 29600)
        assert given["served-model-name"] == "tiny"
        assert ("headless" in given) is (section is worker)
        assert section["container"]["pid_mode"] == ""
    # Only the head answers, so only it has the key.
    assert not [volume for volume in worker["container"]["volumes"] if "vllm_api_key" in volume]
    assert not idle["needed"]


def test_a_file_of_options_lies_where_its_release_reads_it() -> None:
    """In the folder of the scripts, which the container sees."""
    old, new = (
        host_sections(member(vllm_version=version, llm_host_dir="/data"))["vllm"] for version in ("0.11.0", "0.11.1")
    )
    assert old["config"] == {"path": "/data/scripts/vllm.yaml", "content": {}}
    assert "--config" not in old["container"]["command"]
    assert new["config"]["path"] == "/data/scripts/vllm.yaml"
    assert new["config"]["content"]["served-model-name"] == "lab/tiny"
    command = new["container"]["command"]
    assert command[command.index("--config") + 1] == "/llm/vllm.yaml"
    assert "/data/scripts:/llm:ro" in new["container"]["volumes"]
    # A container with other options is another one, though its command is the same.
    longer = host_sections(member(vllm_version="0.11.1", vllm_port=8001, llm_host_dir="/data"))["vllm"]
    again = host_sections(member(vllm_version="0.11.1", llm_host_dir="/data"))["vllm"]
    assert longer["container"]["command"] == new["container"]["command"]
    assert (longer["reads"] == new["reads"], again["reads"] == new["reads"]) == (False, True)


def test_the_api_is_open_where_somebody_wants_that() -> None:
    vllm = host_sections(member(vllm_api_key_enabled=False))["vllm"]
    assert not [volume for volume in vllm["container"]["volumes"] if "vllm_api_key" in volume]
    assert "--key" not in vllm["probe"]["command"]


def test_who_answers_is_told_which_paths() -> None:
    made = deployment("mp", vllm_api_paths=["/tokenize", "/rerank"])
    head, worker = (host_sections(made.of(name))["vllm"]["container"] for name in made.hosts)
    assert head["environment"]["LLM_API_PATHS"] == "/tokenize /rerank"
    assert host_sections(member())["vllm"]["container"]["environment"]["LLM_API_PATHS"] == ""
    assert "LLM_API_PATHS" not in worker["environment"]
    assert "--middleware" not in worker["command"]


def test_who_is_asked_for_a_token() -> None:
    vllm = host_sections(member(vllm_port=8001, vllm_served_model_name="tiny"))["vllm"]
    assert vllm["url"] == "http://10.0.0.1:8001"
    assert vllm["ask"] == ["/usr/bin/env", "python3", "/opt/llm/scripts/ask.py", "http://10.0.0.1:8001", "tiny"]
    assert vllm["key_file"] == "/opt/llm/secrets/vllm_api_key"
