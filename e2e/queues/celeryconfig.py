import os
broker_url = result_backend = f"redis+socket://{os.environ['REDIS']}"
# Redeliver the jobs of a dead worker after 2 s, and check for them every second instead of every
# hundred.
broker_transport_options = {
    "visibility_timeout": 2,
    "unacked_mutex_expire": 2,
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
}
# Prefetch everything. This transport removes a job from the list before it records who has it, so a
# worker killed in between loses the job. With an empty list there is nothing to lose.
worker_prefetch_multiplier = 0
worker_concurrency = 2
