from .z_image import ZImageModel
