"""Hardware that is not here, from data sheets: least times, and what fits in its memory."""
