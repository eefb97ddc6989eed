from .z_image import ZImageModel

AI_TOOLKIT_MODELS = [ZImageModel]
