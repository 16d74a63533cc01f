"""The settings of a small project."""

import os

SECRET_KEY = "test"
INSTALLED_APPS = ["driftq.contrib.django"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
USE_TZ = True
DRIFTQ_URL = os.environ["DRIFTQ_URL"]
DRIFTQ_WORKER = "tasks.worker"
