"""Programs that roles bring to hosts, as modules: their names have hyphens, and they lie in no package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

ROLES = Path(__file__).resolve().parents[2] / "roles"


def load(path: str) -> Any:
    """A program below roles/, loaded anew."""
    file = ROLES / path
    spec = importlib.util.spec_from_file_location(file.stem.replace("-", "_"), file)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
