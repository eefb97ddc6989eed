from extensions_built_in.sd_trainer.SDTrainer import SDTrainer


class DiffusionTrainer(SDTrainer):
    """The trainer of AI Toolkit's UI without its database: as it is when it runs from the command line."""

    def __init__(self, process_id, job, config, **kwargs):
        super().__init__(process_id, job, config, **kwargs)
        self.is_ui_trainer = False

    def maybe_stop(self):
        pass

    def update_status(self, status, info=None):
        pass

    def on_error(self, error):
        super().on_error(error)

    def done_hook(self):
        super().done_hook()

    def end_step_hook(self):
        super().end_step_hook()

    def hook_before_model_load(self):
        super().hook_before_model_load()

    def before_dataset_load(self):
        super().before_dataset_load()

    def hook_before_train_loop(self):
        super().hook_before_train_loop()

    def hook_after_sd_init_before_load(self):
        super().hook_after_sd_init_before_load()

    def sample_step_hook(self, img_num, total_imgs):
        super().sample_step_hook(img_num, total_imgs)

    def sample(self, step=None, is_first=False):
        self.maybe_stop()
        super().sample(step, is_first)
        self.maybe_stop()

    def save(self, step=None):
        self.maybe_stop()
        super().save(step)
        self.maybe_stop()
