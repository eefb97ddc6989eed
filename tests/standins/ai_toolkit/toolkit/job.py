from toolkit.config import get_config


def get_job(config_path, name=None):
    config = get_config(config_path, name)
    if not config["job"]:
        raise ValueError('config file is invalid. Missing "job" key')
    if config["job"] == "extension":
        from jobs import ExtensionJob

        return ExtensionJob(config)
    raise ValueError(f"Unknown job type {config['job']}")
