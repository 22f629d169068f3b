// Made from the Rust types by `cargo xtask bindings`; a test compares. Do not edit.

/**
 * Something that a person can do to a session.
 */
export type Action = "approve" | "deny" | "start" | "extend" | "end" | "review" | "readRecording";

/**
 * May this caller do that, at this time?
 */
export type ActionQuestion = {
  /**
   * What.
   */
  action: Action,
  /**
   * To which session.
   */
  session: Session,
  /**
   * Who.
   */
  actor: Actor,
  /**
   * When.
   */
  now: string, };

/**
 * Who is calling, as the shim vouches for it (docs/caller-protocol.md).
 */
export type Actor = {
  /**
   * The person; what is recorded.
   */
  user: UserRef,
  /**
   * The app that the answers were given for.
   */
  app: string,
  /**
   * What Backstage allowed; what is missing is denied.
   */
  allowed: Array<Permission>,
  /**
   * Member of `glidepath.breakglass.reviewers`.
   */
  reviewer: boolean, };

/**
 * How long what has been the case, in milliseconds.
 */
export type Ages = {
  /**
   * Without a terminal; null while there is one.
   */
  detachedForMs: number | null,
  /**
   * Without input or output.
   */
  idleForMs: number,
  /**
   * With unsaved events; null while there are none.
   */
  unsavedForMs: number | null,
  /**
   * The time that was granted is used up.
   */
  pastDeadline: boolean, };

/**
 * What to do about an anchor.
 */
export type AnchorAnswer = "keep" | "anchor";

/**
 * The body of an approval, and the session that it is about.
 */
export type ApprovalForm = {
  /**
   * The body; null where there is none.
   */
  body: unknown,
  /**
   * The session's mode.
   */
  mode: Mode,
  /**
   * The session's tier.
   */
  tier: Tier, };

/**
 * What an approver wrote.
 */
export type ApprovalNotes = {
  /**
   * The note.
   */
  note: string | null,
  /**
   * Why the pod is kept; null where it is not.
   */
  keepPodReason: string | null, };

/**
 * What the caller can do in an app, for the lists' answers (S-12).
 */
export type Capabilities = {
  /**
   * May open on Flight without a second person: `tower.breakglass.self`.
   */
  canBreakGlass: boolean,
  /**
   * May review somebody else's glass-broken session: an approver, or one of the reviewers.
   */
  canReview: boolean,
  /**
   * May end anybody's session: `tower.breakglass.terminate`; an admin (S-13).
   */
  canTerminate: boolean, };

/**
 * Why there is no decision, as it crosses a door.
 */
export type DoorProblem = {
  /**
   * `too_large`, `not_json`, `wrong_shape`, `not_written` or `unknown_decision`.
   */
  code: string,
  /**
   * What happened, for people.
   */
  message: string, };

/**
 * What an end reason says.
 */
export type EndReasonFacts = {
  /**
   * Which reason.
   */
  kind: EndReasonKind,
  /**
   * Who ended it, where the text names somebody.
   */
  user: UserRef | null,
  /**
   * Why it could not be opened, where that is the reason.
   */
  why: string | null, };

/**
 * The end reasons (S-4).
 */
export type EndReasonKind = "byUser" | "terminated" | "withdrawn" | "cancelled" | "denied" | "nobodyApproved" | "notStarted" | "expired" | "backendRestarted" | "notReopened" | "idle" | "shellExited" | "podGone" | "failedToStart" | "permissionLost" | "notRecorded";

/**
 * The text of `endReason`.
 */
export type EndReasonText = {
  /**
   * The text.
   */
  text: string, };

/**
 * What a cluster's fence looks at.
 */
export type Fence = {
  /**
   * The session's tier.
   */
  tier: Tier,
  /**
   * The cluster.
   */
  cluster: string,
  /**
   * The namespace.
   */
  namespace: string,
  /**
   * The namespace's labels; null where they could not be read.
   */
  namespaceLabels: { [key in string]: string } | null,
  /**
   * The clusters that have no such fence.
   */
  groundClusters: Array<string>,
  /**
   * The labels' names, if they are not the usual ones.
   */
  labelNames?: LabelNames | null, };

/**
 * The names of labels and annotations that decide something.
 */
export type LabelNames = {
  /**
   * On a namespace: the app it belongs to (S-14).
   */
  app: string,
  /**
   * On a namespace: the app's environment (S-14).
   */
  env: string,
  /**
   * On a namespace: `"true"` marks a preview (S-9).
   */
  ephemeralEnv: string,
  /**
   * On a namespace: `"Ground"` lets a Flight cluster's fence treat it as Ground (S-9a).
   */
  tier: string,
  /**
   * On a pod (an annotation): the session that may see its processes (C-8).
   */
  processAccess: string, };

/**
 * A limit's name, as an answer and the configuration spell it.
 */
export type LimitName = "perUser" | "perApp" | "perCluster";

/**
 * How many other sessions are open, and how many may be.
 */
export type LimitQuestion = {
  /**
   * Of the requester.
   */
  ofUser: number,
  /**
   * Of the app.
   */
  ofApp: number,
  /**
   * On the cluster.
   */
  onCluster: number,
  /**
   * The limits.
   */
  limits: Limits, };

/**
 * The most sessions that may be open at once (S-14c).
 */
export type Limits = {
  /**
   * Of one requester, in all apps.
   */
  perUser: number,
  /**
   * Of one app, in all environments.
   */
  perApp: number,
  /**
   * On one cluster.
   */
  perCluster: number, };

/**
 * How the session looks at the app.
 */
export type Mode = "live" | "copy";

/**
 * One volume that the debug container got, as told to people and kept on the row (C-5).
 */
export type MountedVolume = {
  /**
   * The volume's name in the pod.
   */
  name: string,
  /**
   * Where the debug container sees it.
   */
  mountPath: string,
  /**
   * Where the app's container sees it, if that is another path; says why in `note`.
   */
  appPath: string,
  /**
   * Why it is mounted elsewhere, or whole instead of a sub-path.
   */
  note: string | null, };

/**
 * A body that holds a note.
 */
export type NoteForm = {
  /**
   * The body; null where there is none.
   */
  body: unknown, };

/**
 * A body that was read, or everything that is wrong with it.
 */
export type Parsed<T> = { "value": T } | { "problems": Array<Problem> };

/**
 * A permission that Backstage answered ALLOW for the session's app (B-3); no other counts (S-12).
 */
export type Permission = "request" | "self" | "approve" | "terminate";

/**
 * What the form's previews need, part of the list's answer (S-10).
 */
export type Preview = {
  /**
   * What the app's release plan declares for the environment.
   */
  declaredTier: Tier | null,
  /**
   * `Settings::ground_clusters`.
   */
  groundClusters: Array<string>,
  /**
   * `Settings::limits`.
   */
  limits: Limits,
  /**
   * The lengths a session can be asked for, in minutes.
   */
  durations: Array<number>, };

/**
 * One problem of one field, shown beside it in the form (S-5).
 */
export type Problem = {
  /**
   * The field's name in JSON; empty where the body as a whole is wrong.
   */
  field: string,
  /**
   * What is wrong, for programs.
   */
  code: ProblemCode,
  /**
   * What is wrong, for people.
   */
  message: string, };

/**
 * What is wrong with a field, for programs.
 */
export type ProblemCode = "not-an-object" | "required" | "wrong-type" | "not-a-name" | "too-long" | "not-one-of" | "not-a-url" | "control-character" | "only-with-live" | "only-with-copy" | "only-on-flight";

/**
 * The answer of `GET /queue` (S-8); each list in the order the sessions were given in.
 */
export type Queue = {
  /**
   * Requests to approve or deny.
   */
  toApprove: Array<Session>,
  /**
   * The caller's approved sessions to start.
   */
  toStart: Array<Session>,
  /**
   * Reviews due.
   */
  toReview: Array<ToReview>, };

/**
 * Where in the queue a session belongs.
 */
export type QueuePlace = { "list": "toApprove" } | { "list": "toStart" } | { "list": "toReview",
  /**
   * It ended 72 hours ago or earlier.
   */
  overdue: boolean, };

/**
 * Where does a session belong for this caller?
 */
export type QueueQuestion = {
  /**
   * The session.
   */
  session: Session,
  /**
   * The caller.
   */
  user: UserRef,
  /**
   * The caller may approve for the session's app.
   */
  approve: boolean,
  /**
   * The caller is one of the reviewers.
   */
  reviewer: boolean,
  /**
   * When.
   */
  now: string, };

/**
 * May this caller read the session's recording?
 */
export type RecordingQuestion = {
  /**
   * The session.
   */
  session: Session,
  /**
   * Who.
   */
  actor: Actor, };

/**
 * Why not.
 */
export type Refused = {
  /**
   * What kind of refusal it is.
   */
  kind: RefusedAs,
  /**
   * Why, for the person.
   */
  message: string, };

/**
 * What kind of refusal it is; each has one status (S-11).
 */
export type RefusedAs = "invalid" | "notAllowed" | "notFound" | "conflict" | "gone";

/**
 * What to do about a review.
 */
export type ReminderAnswer = "keep" | "remind" | "escalate";

/**
 * The body of a request, as far as it is filled in.
 */
export type RequestForm = {
  /**
   * The body.
   */
  body: unknown,
  /**
   * The session's tier, if it is known.
   */
  tier?: Tier | null, };

/**
 * The review that a glass-broken session owes (S-2).
 */
export type ReviewState = "due" | "done";

/**
 * A row and the time.
 */
export type RowQuestion = {
  /**
   * The row.
   */
  session: Session,
  /**
   * When.
   */
  now: string, };

/**
 * A session: the row (spec 06), and its JSON (S-10). Unset values are `null`.
 */
export type Session = { id: SessionId, app: string, env: string, cluster: string, namespace: string, pod: string, container: string, mode: Mode, processAccess: boolean, volumeAccess: boolean, volumes: Array<MountedVolume>, recycleLastPod: boolean, recycled: boolean | null, reason: string, ticketUrl: string | null, requester: UserRef, tier: Tier, durationMinutes: number, approver: UserRef | null, approvedAt: string | null, decisionNote: string | null, glassBroken: boolean, reviewState: ReviewState | null, reviewedBy: UserRef | null, reviewedAt: string | null, reviewNote: string | null, createdAt: string, startedAt: string | null, extendedAt: string | null, expiresAt: string, endedAt: string | null, endReason: string | null, endedBy: UserRef | null, roleBinding: string | null, copyPod: string | null, debugContainer: string | null, recordingKey: string | null, recordingSha256: string | null, recordingBytes: number | null, recordingBucket: string | null, recordingVersion: string | null, sensitive: boolean, holdApp: boolean, podImage: string | null, podImageId: string | null, recycleWaivedReason: string | null, reviewRemindedAt: string | null, reviewEscalatedAt: string | null, recordingRekorIndex: number | null, recordingRekorUuid: string | null, anchorAttemptedAt: string | null, anchorError: string | null, cleanupNotes: string | null, state: State, };

/**
 * A session's id: 12 characters of `[0-9a-z]` (S-3). A value of this type is well formed.
 */
export type SessionId = string;

/**
 * A request that has passed `parse_session_request` (S-5); not `Deserialize`, because there is no
 * other way to one.
 */
export type SessionRequest = {
  /**
   * The app, as the catalog and the namespace's label name it.
   */
  app: string,
  /**
   * The app's environment.
   */
  env: string,
  /**
   * The cluster, by its name in the configuration.
   */
  cluster: string,
  /**
   * The pod's namespace.
   */
  namespace: string,
  /**
   * The pod.
   */
  pod: string,
  /**
   * The container of the pod that the session is about.
   */
  container: string,
  /**
   * How the session looks at the app.
   */
  mode: Mode,
  /**
   * One of `DURATIONS_MINUTES`.
   */
  durationMinutes: number,
  /**
   * Why, trimmed; never empty.
   */
  reason: string,
  /**
   * An http(s) link to a ticket.
   */
  ticketUrl: string | null,
  /**
   * See the app's processes; live only.
   */
  processAccess: boolean,
  /**
   * See the app's volumes, read-only.
   */
  volumeAccess: boolean,
  /**
   * Recycle the pod even if it is its controller's last ready one; live on Ground only.
   */
  recycleLastPod: boolean,
  /**
   * Keep the app's containers from running in the copy; copy only.
   */
  holdApp: boolean,
  /**
   * Open on Flight without a second person.
   */
  glassBroken: boolean, };

/**
 * Where a session is in its life (spec 01, "States").
 */
export type State = "requested" | "approved" | "active" | "ended";

/**
 * What the sweep does.
 */
export type SweepAnswer = { "action": "keep" } | { "action": "end",
  /**
   * With this text (S-4).
   */
  reason: string, } | { "action": "resumeOrEnd" } | { "action": "checkpoint" };

/**
 * A row, the process that runs it, and the time.
 */
export type SweepQuestion = {
  /**
   * The row.
   */
  session: Session,
  /**
   * What this process knows of it, if it runs it.
   */
  runtime: Ages | null,
  /**
   * When.
   */
  now: string,
  /**
   * Whether a session without a process may be taken up again.
   */
  resumeSessions: boolean, };

/**
 * A target that can be debugged, or why not.
 */
export type TargetAnswer = { "target": {
    /**
     * The namespace is a preview (S-9, rule 1).
     */
    preview: boolean, } } | { "refusal": string };

/**
 * What the cluster says of the pod.
 */
export type TargetPod = {
  /**
   * `status.phase`.
   */
  phase: string | null,
  /**
   * It has a deletion timestamp.
   */
  deleting: boolean,
  /**
   * The names of `spec.containers`.
   */
  containers: Array<string>, };

/**
 * A target, and what the cluster says of it.
 */
export type TargetQuestion = { app: string, env: string, namespace: string, pod: string, container: string,
  /**
   * The namespace's labels; null where they could not be read.
   */
  namespaceLabels: { [key in string]: string } | null,
  /**
   * What the cluster says of the pod; null where there is none.
   */
  podFacts: TargetPod | null,
  /**
   * The labels' names, if they are not the usual ones.
   */
  labelNames?: LabelNames | null, };

/**
 * What is at stake (S-9).
 */
export type Tier = "Ground" | "Flight";

/**
 * A tier and why.
 */
export type TierDecision = {
  /**
   * The tier.
   */
  tier: Tier,
  /**
   * The rule that decided.
   */
  rule: TierRule, };

/**
 * What the tier is decided from (S-9).
 */
export type TierFacts = {
  /**
   * The namespace carries the preview label; false where it could not be read.
   */
  preview: boolean,
  /**
   * What the app's release plan declares for the environment.
   */
  declared: Tier | null,
  /**
   * The cluster's name.
   */
  cluster: string,
  /**
   * The clusters whose environments are Ground unless declared otherwise.
   */
  groundClusters: Array<string>, };

/**
 * Which rule decided (S-9), so that the form can explain itself.
 */
export type TierRule = "preview" | "declared" | "ground-cluster" | "flight-cluster";

/**
 * A session to review, with its urgency.
 */
export type ToReview = {
  /**
   * The session ended 72 hours ago or earlier.
   */
  overdue: boolean, id: SessionId, app: string, env: string, cluster: string, namespace: string, pod: string, container: string, mode: Mode, processAccess: boolean, volumeAccess: boolean, volumes: Array<MountedVolume>, recycleLastPod: boolean, recycled: boolean | null, reason: string, ticketUrl: string | null, requester: UserRef, tier: Tier, durationMinutes: number, approver: UserRef | null, approvedAt: string | null, decisionNote: string | null, glassBroken: boolean, reviewState: ReviewState | null, reviewedBy: UserRef | null, reviewedAt: string | null, reviewNote: string | null, createdAt: string, startedAt: string | null, extendedAt: string | null, expiresAt: string, endedAt: string | null, endReason: string | null, endedBy: UserRef | null, roleBinding: string | null, copyPod: string | null, debugContainer: string | null, recordingKey: string | null, recordingSha256: string | null, recordingBytes: number | null, recordingBucket: string | null, recordingVersion: string | null, sensitive: boolean, holdApp: boolean, podImage: string | null, podImageId: string | null, recycleWaivedReason: string | null, reviewRemindedAt: string | null, reviewEscalatedAt: string | null, recordingRekorIndex: number | null, recordingRekorUuid: string | null, anchorAttemptedAt: string | null, anchorError: string | null, cleanupNotes: string | null, state: State, };

/**
 * A person: the full entity ref in lower case (`user:default/alice`), compared as text (S-4).
 */
export type UserRef = string;

/** Every decision. Each throws a `DecisionInputError` for an input that it cannot read. */
export interface Decisions {
  /**
   * Reads the body of `POST /sessions` and names every problem (S-5).
   */
  parseSessionRequest(input: RequestForm): Parsed<SessionRequest>;
  /**
   * Reads the body of `POST …/approve`, with the waiver of the recycle (S-6).
   */
  parseApproval(input: ApprovalForm): Parsed<ApprovalNotes>;
  /**
   * Reads the body of `POST …/deny`: an optional note.
   */
  parseDenial(input: NoteForm): Parsed<string | null>;
  /**
   * Reads the body of `POST …/review`: a note.
   */
  parseReview(input: NoteForm): Parsed<string>;
  /**
   * Decides the tier and says which rule decided (S-9).
   */
  tierFor(input: TierFacts): TierDecision;
  /**
   * Says why the cluster's fence would refuse a session of this tier, if so (S-9a).
   */
  fenceRefusal(input: Fence): string | null;
  /**
   * Checks a target against what the cluster says of it (S-14).
   */
  checkTarget(input: TargetQuestion): TargetAnswer;
  /**
   * Names the limit that one more session would be over, if any (S-14c).
   */
  overLimit(input: LimitQuestion): LimitName | null;
  /**
   * Says what the caller can do in an app (S-12).
   */
  capabilities(input: Actor): Capabilities;
  /**
   * Says why the caller cannot do this to a session, if so: the reason beside a button.
   */
  actionRefusal(input: ActionQuestion): Refused | null;
  /**
   * Says why the caller may not read a sensitive session's recording, if so (S-7).
   */
  sensitiveRecordingRefusal(input: RecordingQuestion): Refused | null;
  /**
   * Says where in the caller's queue a session belongs, if anywhere (S-8).
   */
  placeInQueue(input: QueueQuestion): QueuePlace | null;
  /**
   * Says what the sweep does with an unfinished row (spec 05).
   */
  sweepAction(input: SweepQuestion): SweepAnswer;
  /**
   * Says whether an ended row's recording is to be anchored.
   */
  anchorAction(input: RowQuestion): AnchorAnswer;
  /**
   * Says whether somebody is to be reminded of a review (W-1).
   */
  reviewReminderAction(input: RowQuestion): ReminderAnswer;
  /**
   * Gives the session as people see it at this time: over, if its deadline has passed.
   */
  asSeen(input: RowQuestion): Session;
  /**
   * Reads an end reason's text (S-4); null for a text that is none.
   */
  readEndReason(input: EndReasonText): EndReasonFacts | null;
}
