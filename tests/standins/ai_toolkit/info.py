from version import VERSION

software_meta = {"name": "ai-toolkit", "repo": "https://github.com/ostris/ai-toolkit", "version": VERSION}
