"""Where the reference programs are.

`SAT_ORACLE` may name a folder that holds the packages pycocoevalcap 1.2 and snowballstemmer 2, such
as the site-packages of an environment of its own. Without it installed ones are used.
"""

import os
import sys

if folder := os.environ.get("SAT_ORACLE"):
    sys.path.insert(0, folder)
