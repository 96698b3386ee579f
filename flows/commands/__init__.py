"""The commands of ``anonflow``, one subject a module; ``flows.cli`` puts them together."""
