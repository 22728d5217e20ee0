"""`magicbyte report`: ``facts`` gathers in bounded memory, ``charts`` draws, ``page`` writes the one HTML file."""
