"""Drawing: where each word looked, as a picture like the paper's figures, and as a page."""

from show_attend_tell.drawing.figure import draw
from show_attend_tell.drawing.light import attention_map
from show_attend_tell.drawing.page import page

__all__ = ["attention_map", "draw", "page"]
