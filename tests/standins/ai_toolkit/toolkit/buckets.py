import math


def get_bucket_for_image_size(width, height, resolution=512, divisibility=8):
    """The size nearest to the image's shape with no more pixels than the resolution's square."""
    most = resolution * resolution
    wanted = min(width * height, most)
    scale = (wanted / (width * height)) ** 0.5
    sides = [side * scale / divisibility for side in (width, height)]
    choices = [(w * divisibility, h * divisibility) for w in _whole(sides[0]) for h in _whole(sides[1])]
    fitting = [(w, h) for w, h in choices if w and h and w * h <= most]
    fitting = fitting or [tuple(max(divisibility, math.floor(side) * divisibility) for side in sides)]
    w, h = min(fitting, key=lambda size: abs(size[0] * size[1] - wanted))
    return {"width": w, "height": h}


def _whole(side):
    return math.floor(side), math.ceil(side)
