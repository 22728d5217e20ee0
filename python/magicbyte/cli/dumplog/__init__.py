"""What `kafka-dump-log` shows: ``lines`` for logs, ``beside`` for the files beside them."""
