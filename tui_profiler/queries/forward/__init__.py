"""One forward laid out: left to right, by depth, by live memory."""
