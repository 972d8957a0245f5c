"""Drawing: where each word looked, as figure, sheet, overlay, animation, page or numbers."""

from show_attend_tell.drawing.animation import animate
from show_attend_tell.drawing.figure import draw, sheet
from show_attend_tell.drawing.items import Item, caption_items
from show_attend_tell.drawing.kinds import check, make
from show_attend_tell.drawing.light import attention_map
from show_attend_tell.drawing.overlay import overlay
from show_attend_tell.drawing.page import page

__all__ = [
    "Item",
    "animate",
    "attention_map",
    "caption_items",
    "check",
    "draw",
    "make",
    "overlay",
    "page",
    "sheet",
]
