# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Pillow: codecs with assembler (libjpeg-turbo's has no unwind information), filters."""
import io

from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps

image = Image.effect_noise((160, 160), 50).convert("RGB")

while True:
    for fmt in ("PNG", "JPEG", "GIF", "TIFF", "WEBP"):
        stream = io.BytesIO()
        image.save(stream, fmt)
        stream.seek(0)
        Image.open(stream).load()
    image.resize((90, 90), Image.LANCZOS)
    image.filter(ImageFilter.GaussianBlur(3))
    image.rotate(30, Image.BICUBIC)
    image.quantize(16)
    ImageDraw.Draw(image).ellipse((1, 1, 90, 90), fill="red")
    ImageOps.autocontrast(image)
    ImageEnhance.Sharpness(image).enhance(2)
    image.point(lambda x: x)
