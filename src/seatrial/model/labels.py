"""The marks on everything we make on a real cluster: by them it is found, measured, and removed."""

STUDY_LABEL = "seatrial.dev/study"  # which study made it: what `clean` goes by
WORKLOAD_LABEL = "seatrial.dev/workload"  # which workload an object belongs to
GROUP_LABEL = "seatrial.dev/nodes"  # which node group a fake node belongs to
DURATION_ANNOTATION = "seatrial.dev/duration"  # how long a pod runs on a fake node
TOUCHED_ANNOTATION = "seatrial.dev/touched"  # when a pod was last shown to a KWOK that was started anew
UNREADY_ANNOTATION = "seatrial.dev/unready"  # a fake node that a step made NotReady
GANG_LABEL = "seatrial.dev/gang"  # on pods whose application is played: how many of them run only together
APPLICATION_ANNOTATION = "seatrial.dev/application"  # how long such a pod runs once all of them do
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"  # Kubernetes' own, on pods of an Indexed Job
CHECKPOINT_ANNOTATION = "seatrial.dev/checkpoint"  # how often it is saved how far a pod, or its gang, has come
PHASE_LABEL = "seatrial.dev/phase"  # which create phase made it, or the object whose pod it is


def priority_class(study: str, priority: int) -> str:
    """Name of the PriorityClass that a study makes for a priority: the API server takes no pod with a priority but no class."""
    return f"seatrial-{study}-{'minus-' if priority < 0 else ''}{abs(priority)}"
