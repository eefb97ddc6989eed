from toolkit.extension import Extension


class SDTrainerExtension(Extension):
    uid = "sd_trainer"
    name = "SD Trainer"

    @classmethod
    def get_process(cls):
        from .SDTrainer import SDTrainer

        return SDTrainer


class DiffusionTrainerExtension(Extension):
    uid = "diffusion_trainer"
    name = "Diffusion Trainer"

    @classmethod
    def get_process(cls):
        from .DiffusionTrainer import DiffusionTrainer

        return DiffusionTrainer


class UITrainerExtension(DiffusionTrainerExtension):
    uid = "ui_trainer"
    name = "UI Trainer"


AI_TOOLKIT_EXTENSIONS = [SDTrainerExtension, UITrainerExtension, DiffusionTrainerExtension]
