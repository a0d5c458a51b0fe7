"""The plan of a run: where it comes from, and how the run rewrites steps that fail.

The plan is given by the caller, written by the user, cached, or new from the planner. A rewritten step stays
in the stored plan, with what it was before. So a resumed run asks no agent again, and the plan is still
recognized as the one that was given or planned.
"""

from __future__ import annotations

from ..errors import SettingsError
from ..generators.generator import Generator
from ..journal.records.run_record import plan_digest
from ..journal.store import PlanKey, RunStore
from ..types import Plan, Request, Step, StepResult, StopReason
from ..types.roles import CriticLike, PlannerLike
from .collaborators import Collaborators
from .policy import user_selected
from .step_rules import from_text, with_loras


class RunPlan:
    """The plan of a run. `find` is called first.

    Attributes:
        plan: The plan, with its cast.
        planned: Whether it is recorded as the planner's plan.
        reused: Whether it came from the store.
    """

    plan: Plan

    def __init__(
        self,
        request: Request,
        store: RunStore,
        generator: Generator,
        collaborators: Collaborators,
    ) -> None:
        self._request, self._store, self._generator = request, store, generator
        self._planner = collaborators.planner
        self._cast, self._rewriter = collaborators.cast, collaborators.rewriter
        self._key: PlanKey | None = None
        self.planned = self.reused = False

    def find(self, given: Plan | None, critic: CriticLike | None) -> Plan:
        """Return the plan of the run, which is stored.

        Args:
            given: Plan of the caller.
            critic: The critic. If it has the planner's weights, they stay in VRAM.

        Raises:
            AnswerError: The planner's reply could not be parsed.
            ChatError: The planner failed.
            JournalError: The plan in the store is damaged.
            SettingsError: Planner and plan are both missing, or the generator does not have a step's LoRA.
            Cancelled: The run was cancelled.
        """
        written = self._store.written_plan()
        if given is not None:
            self.planned = self._planner is not None
            self.plan = self._given(self._complete(given), written)
        elif written is not None:
            self.reused = True
            self.plan = self._stored(written)
        elif self._planner is not None:
            self.planned = True
            self.plan = self._from_planner(self._planner, critic)
        else:
            raise SettingsError(
                "The run has neither a planner nor a plan.", "Choose a planner, or give a plan."
            )
        return self.plan

    def rewrite(self, result: StepResult) -> Step | None:
        """Rewrite a step whose attempts are used up, so that it is generated from text.

        Returns:
            The step with the plan's style. `None` if the step was not rewritten: there is no rewriter or
            prompt, the step does not edit an image, or the user decided about it or edited the plan.

        Raises:
            ChatError: The rewriter failed.
            Cancelled: The run was cancelled.
        """
        failed = result.stop_reason is StopReason.attempts_used_up and result.attempts[-1].source is not None
        if self._rewriter is None or not failed:
            return None
        verdicts = [attempt.verdict for attempt in result.attempts if attempt.verdict]
        prompt = self._rewriter(self.plan, result.step, verdicts[-1].reasoning if verdicts else "")
        step = from_text(result, self.plan, prompt or "")
        if step is None or self._user_decided(result):
            return None
        steps = tuple(step if one.number == step.number else one for one in self.plan.steps)
        self.plan = self.plan.model_copy(update={"steps": steps})
        self._store.keep_plan(self.plan, self._key)
        return next(one for one in self.plan.drawn_steps if one.number == step.number)

    def _given(self, given: Plan, written: Plan | None) -> Plan:
        """Store a given plan, unless the stored plan is the same one with rewritten steps."""
        if written is not None and plan_digest(written) == plan_digest(given):
            return written
        # If another run rewrote steps of it, that run's generator calls do not count for this one.
        steps = tuple(step.model_copy(update={"rewritten": None}) for step in given.steps)
        given = given.model_copy(update={"steps": steps})
        self._store.keep_plan(given, None)
        return given

    def _from_planner(self, planner: PlannerLike, critic: CriticLike | None) -> Plan:
        self._key = PlanKey(
            planner=planner.identity,
            text=self._request.text,
            images=tuple(image.digest for image in self._request.images),
        )
        known = self._store.plan(self._key)
        if known is not None:
            self.reused = True
            return self._stored(known)
        plan = self._complete(planner.plan(self._request))
        planner.offload(critic)
        self._store.keep_plan(plan, self._key)
        return plan

    def _stored(self, stored: Plan) -> Plan:
        """Return a stored plan with its cast, marks as lists, and LoRAs."""
        plan = self._complete(stored)
        if plan != stored:
            self._store.keep_plan(plan, self._key)
        return plan

    def _complete(self, plan: Plan) -> Plan:
        with_cast = plan if self._cast is None else self._cast(self._request, plan)
        return with_loras(with_cast.resolved, self._generator)

    def _user_decided(self, result: StepResult) -> bool:
        """Return whether the user decided about a step, or edited the plan, while it was run."""
        step = result.step
        picked = user_selected(result.attempts, self._store.user_selected(step.number)) is not None
        asked = any(request.by == "user" for request in self._store.redraws(step).values())
        written = self._store.written_plan()
        edited = written is not None and plan_digest(written) != plan_digest(self.plan)
        return picked or asked or edited or self._store.skipped(step)
