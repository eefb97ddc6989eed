"""What the command line can do, a module a verb, imported when it is called: ``run(options) -> exit code``."""
