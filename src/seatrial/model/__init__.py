"""Plain data that every layer shares, and the interfaces between layers. It imports nothing of seatrial."""
