"""Whether this process draws for a page in a browser."""

import os

WEB_DRIVER = "textual.drivers.web_driver:WebDriver"


def is_served() -> bool:
    """Tell whether a page in a browser is our terminal: standard input and output are pipes."""
    return os.environ.get("TEXTUAL_DRIVER") == WEB_DRIVER
