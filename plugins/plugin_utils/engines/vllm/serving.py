# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a server is started with besides its model: chat template, generation config, adapters, draft model, parsers.

Variables become options of the release. What cannot work is found before a host is touched: a template that does not parse, an adapter for
another model, a chat without a template.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import folder_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, problem
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data import version_changes as changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.values import domain
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import (
    release_key,
    resolve_release,
    within,
)
from jinja2 import TemplateSyntaxError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

# What each of the small files is called where the server sees them.
FILES = {
    "vllm_chat_template": "chat_template.jinja",
    "vllm_generation_config": "generation_config.json",
    "vllm_tool_parser_plugin": "tool_parser.py",
}
# Values of vLLM's option that are no file.
GENERATION_CONFIGS = ("auto", "vllm")
# Files of a model's folder that bring a chat template, besides an entry of tokenizer_config.json (transformers, PreTrainedTokenizerBase), and
# the one of Mistral's own tokenizer, which knows how to chat.
TEMPLATES = ("chat_template.jinja", "chat_template.json", "tekken.json")
# Tasks of models that do not chat.
POOLING_TASKS = ("embedding", "embed", "classify", "score", "reward")


def pools(options: Mapping[str, object]) -> bool:
    """Whether ``vllm_options`` make a server that generates nothing: embeddings, classes or scores are its answers."""
    return options.get("runner") == "pooling" or options.get("task") in POOLING_TASKS


def answers_with(options: Mapping[str, object], config: Mapping[str, object]) -> str:
    """What a server shows that it works with: a ``token``, or for one that generates nothing an ``embedding``, a ``score``, a ``class`` or what is
    ``pooled``. ``config`` is the model's config.json.

    Releases before 0.10.1 have the option ``task``; later ones have ``runner``, and find by themselves what the model's class is for unless
    ``convert`` says it (vllm/config/model.py, _get_convert_type and the suffixes of architectures there). Scores are those of one label.
    """
    if not pools(options):
        return "token"
    said = str(options.get("task") or options.get("convert") or "auto")
    overrides = options.get("hf_overrides")
    known = {**config, **(overrides if isinstance(overrides, Mapping) else {})}
    architecture = str((known.get("architectures") or [""])[0])
    classifies = said == "classify" or (
        said == "auto" and architecture.endswith(("ForSequenceClassification", "Classifier"))
    )
    labels = known.get("num_labels") or len(known.get("id2label") or ()) or 1
    if said == "score" or (classifies and (labels == 1 or known.get("classifier_from_token"))):
        return "score"
    if classifies:
        return "class"
    return "pooled" if said == "reward" or (said == "auto" and "Reward" in architecture) else "embedding"


class _Generation(Extension):
    """What transformers adds to Jinja: it marks the answers, and says nothing more."""

    tags = {"generation"}  # noqa: RUF012 (as the base class has it)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


@dataclass(frozen=True)
class Serving:
    """What the inventory says of one deployment, by the variables of its head, and what is known of its models."""

    deployment: str
    variables: Mapping[str, object]
    # The records of the bundle's manifest.
    records: Sequence[Mapping[str, object]]
    # A file of the bundle with JSON, by its path there, and a file of the controller.
    read: Callable[[str], Mapping[str, object]]
    text: Callable[[str], str]
    language: str = "en"

    # -- the small files ----------------------------------------------------------------------------------------------
    def path_of(self, variable: str) -> str:
        """The file on the controller that a variable names; empty where it names none."""
        said = str(self.variables.get(variable) or "")
        return "" if variable == "vllm_generation_config" and said in GENERATION_CONFIGS else said

    def files(self) -> dict[str, str]:
        """The content of each small file, by its name; only those that can be read."""
        found = {}
        for variable, name in FILES.items():
            if self.path_of(variable):
                try:
                    found[name] = self.text(self.path_of(variable))
                except (OSError, UnicodeDecodeError):
                    continue
        return found

    # -- options ------------------------------------------------------------------------------------------------------
    def settings(self, folder: str) -> dict[str, object]:
        """The options that follow from the variables; ``folder`` is where the server sees the small files."""
        mine = self.variables
        found: dict[str, object] = {}
        if mine.get("vllm_tokenizer"):
            found["tokenizer"] = folder_of(mine, str(mine["vllm_tokenizer"]))
        if self.path_of("vllm_chat_template"):
            found["chat_template"] = f"{folder}/{FILES['vllm_chat_template']}"
        if mine.get("vllm_generation_config"):
            # The option takes a folder.
            found["generation_config"] = (
                folder if self.path_of("vllm_generation_config") else mine["vllm_generation_config"]
            )
        found |= {**self._parsers(folder), **self._adapters()}
        # What somebody says in so many words stands, such as another max_lora_rank.
        said = mapping(mine.get("vllm_options"))
        return {**{name: value for name, value in found.items() if name not in said}, **self._draft()}

    @property
    def _key(self) -> tuple[int, ...]:
        return resolve_release(self.variables["vllm_version"]).key

    def _parsers(self, folder: str) -> dict[str, object]:
        mine = self.variables
        found: dict[str, object] = {}
        if mine.get("vllm_tool_call_parser"):
            found |= {"enable_auto_tool_choice": True, "tool_call_parser": str(mine["vllm_tool_call_parser"])}
        if self.path_of("vllm_tool_parser_plugin"):
            found["tool_parser_plugin"] = f"{folder}/{FILES['vllm_tool_parser_plugin']}"
        if mine.get("vllm_reasoning_parser"):
            found["reasoning_parser"] = str(mine["vllm_reasoning_parser"])
            if within(self._key, None, changes.ENABLE_REASONING_LAST):
                found["enable_reasoning"] = True
        return found

    def _adapters(self) -> dict[str, object]:
        adapters = mappings(self.variables.get("vllm_lora_adapters"))
        if not adapters:
            return {}
        modules = [f"{adapter['name']}={folder_of(self.variables, str(adapter['model']))}" for adapter in adapters]
        found: dict[str, object] = {"enable_lora": True, "lora_modules": modules}
        rank = max((whole(self.config_of(adapter).get("r") or 0) for adapter in adapters), default=0)
        if rank:
            allowed = domain("max_lora_rank", resolve_release(self.variables["vllm_version"]))
            found["max_lora_rank"] = next((size for size in sorted(map(int, allowed or ())) if size >= rank), rank)
        return found

    def _draft(self) -> dict[str, object]:
        mine = self.variables
        if not mine.get("vllm_speculative_model"):
            return {}
        model = folder_of(mine, str(mine["vllm_speculative_model"]))
        tokens = whole(mine["vllm_num_speculative_tokens"])
        if self._key < release_key(changes.SPECULATIVE_CONFIG_SINCE):
            return {"speculative_model": model, "num_speculative_tokens": tokens}
        said = mapping(mapping(mine.get("vllm_options")).get("speculative_config"))
        return {"speculative_config": {**said, "model": model, "num_speculative_tokens": tokens}}

    # -- what is known of a model -------------------------------------------------------------------------------------
    def _record(self, model: str, name: str) -> str:
        """The path in the bundle of a file of a model; empty where it is not there, or the model is on the hosts."""
        paths = [str(record["path"]) for record in self.records if record.get("model") == model]
        return next((path for path in paths if posixpath.basename(path) == name), "")

    def config_of(self, adapter: Mapping[str, object]) -> Mapping[str, object]:
        """An adapter's adapter_config.json, as far as the bundle has it."""
        path = self._record(str(adapter["model"]), "adapter_config.json")
        return self.read(path) if path else {}

    def lacks_template(self) -> bool:
        """Whether nobody brings a chat template, neither the inventory nor the model, as far as the bundle tells."""
        mine = self.variables
        options = mapping(mine.get("vllm_options"))
        if self.path_of("vllm_chat_template") or pools(options):
            return False
        model = str(mine.get("vllm_tokenizer") or mine["vllm_model"])
        path = self._record(model, "tokenizer_config.json")
        if not path or any(self._record(model, name) for name in TEMPLATES):
            return False
        return not self.read(path).get("chat_template")

    def warnings(self) -> Iterator[str]:
        """What a plan says of it."""
        if self.lacks_template():
            yield message("serving_no_template_warning", self.language)
        if self.variables.get("vllm_speculative_model"):
            yield message("serving_draft_warning", self.language)

    # -- what is wrong ------------------------------------------------------------------------------------------------
    def problems(self) -> Iterator[dict[str, str]]:
        """All that would fail, or answer something else than meant, once the model is loaded."""
        for variable in FILES:
            if self.path_of(variable):
                yield from self._file_problems(variable, self.path_of(variable))
        for adapter in mappings(self.variables.get("vllm_lora_adapters")):
            yield from self._adapter_problems(adapter)
        chats = [name for name in ("vllm_tool_call_parser", "vllm_reasoning_parser") if self.variables.get(name)]
        if chats and self.lacks_template():
            said = f"{chats[0]}: {self.variables[chats[0]]}"
            yield self._problem("chat_without_template", said, model=self.variables["vllm_model"])

    def _problem(self, code: str, value: str, **values: object) -> dict[str, str]:
        where = message("where_group", self.language, group=self.deployment)
        return problem(code, self.language, value=value, where=where, deployment=self.deployment, **values)

    def _file_problems(self, variable: str, path: str) -> Iterator[dict[str, str]]:
        try:
            text = self.text(path)
        except (OSError, UnicodeDecodeError) as error:
            yield self._problem("serving_file_unreadable", path, variable=variable, reason=error)
            return
        try:
            if variable == "vllm_chat_template":
                parse_template(text)
            elif variable == "vllm_generation_config" and not isinstance(read_json(text), dict):
                raise ValueError(message("serving_file_no_mapping", self.language))
            elif variable == "vllm_tool_parser_plugin":
                compile(text, path, "exec", dont_inherit=True)
        except TemplateSyntaxError as error:
            reason = str(error.message).rstrip(".")
            yield self._problem("chat_template_malformed", path, line=error.lineno, reason=reason)
        except (ValueError, SyntaxError) as error:
            yield self._problem("serving_file_malformed", path, variable=variable, reason=error)

    def _adapter_problems(self, adapter: Mapping[str, object]) -> Iterator[dict[str, str]]:
        model, served = str(adapter["model"]), str(self.variables["vllm_model"])
        held = any(record.get("model") == model for record in self.records)
        if held and not self._record(model, "adapter_config.json"):
            yield self._problem("adapter_without_config", model, name=adapter["name"])
            return
        trained = str(self.config_of(adapter).get("base_model_name_or_path") or "")
        expected = str(adapter.get("base_model") or served)
        if trained and _last_part(trained) != _last_part(expected):
            yield self._problem("adapter_of_other_model", model, name=adapter["name"], trained=trained, served=served)


def parse_template(text: str) -> None:
    """Raise jinja2's TemplateSyntaxError for a chat template that transformers could not read. Nothing of it is run."""
    # The same settings as transformers/utils/chat_template_utils.py.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, autoescape=False, extensions=[_Generation, loopcontrols]
    )
    environment.compile(environment.parse(text))


def _last_part(model: str) -> str:
    """What identifies a model wherever it was loaded from: a hub, its cache, or a folder."""
    return posixpath.basename(model.rstrip("/").replace("--", "/")).lower()
