"""Labels and annotations of everything we create on a real cluster, to find, measure and remove it."""

STUDY_LABEL = "seatrial.dev/study"  # the study that created it; `clean` selects by it
WORKLOAD_LABEL = "seatrial.dev/workload"  # which workload an object belongs to
GROUP_LABEL = "seatrial.dev/nodes"  # which node group a fake node belongs to
KUBELET_LABEL = "seatrial.dev/kubelet"  # on nodes that have one: KWOK leaves them alone
DURATION_ANNOTATION = (
    "seatrial.dev/duration"  # how long a pod runs on a fake node, or on one whose containers are played
)
TOUCHED_ANNOTATION = "seatrial.dev/touched"  # when a pod was last patched for a restarted KWOK
UNREADY_ANNOTATION = "seatrial.dev/unready"  # a fake node that a step made NotReady
GANG_LABEL = "seatrial.dev/gang"  # on pods whose application is played: how many of them run only together
APPLICATION_ANNOTATION = "seatrial.dev/application"  # how long such a pod runs once all of them do
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"  # Kubernetes' own, on pods of an Indexed Job
CHECKPOINT_ANNOTATION = "seatrial.dev/checkpoint"  # how often it is saved how far a pod, or its gang, has come
PHASE_LABEL = "seatrial.dev/phase"  # which create phase made it, or the object whose pod it is


def priority_class(study: str, priority: int) -> str:
    """Name of the PriorityClass that a study makes for a priority: the API server refuses pods with a priority but no class."""
    return f"seatrial-{study}-{'minus-' if priority < 0 else ''}{abs(priority)}"
