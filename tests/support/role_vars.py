"""What a variable of a role comes to, as Ansible evaluates it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROLES = Path(__file__).parents[2] / "roles"


def role_variable(role: str, name: str, **variables: Any) -> Any:
    """One of the variables in the vars of a role, beside the others of these and what is given, which wins."""
    loader = DataLoader()
    texts = loader.load_from_file(str(ROLES / role / "vars/main.yml"))
    own = {key: trust_as_template(text) if isinstance(text, str) else text for key, text in texts.items()}
    return Templar(loader, variables={**own, **variables}).template(own[name])
