import os
broker_url = result_backend = f"redis+socket://{os.environ['REDIS']}"
# What a dead worker had comes again so soon: the next looks for it every second, not every hundred.
broker_transport_options = {
    "visibility_timeout": 2,
    "unacked_mutex_expire": 2,
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
}
# All at once: this transport takes a job off the list before it writes down that it has it, and a worker
# killed between the two has lost it. With nothing left on the list there is nothing to lose.
worker_prefetch_multiplier = 0
worker_concurrency = 2
