// What Tower relies on (S-10, B-12). A change of the Rust types that takes something of this away
// does not compile here. Add to it when Tower begins to read something; never take from it.

import type {
  Decisions,
  DecisionsApi,
  Limits,
  MountedVolume,
  Preview,
  Problem,
  Queue,
  Session,
} from '@hangar/breakglass-decisions';
import { decisions as byAddon, host, loadErrors } from '@hangar/breakglass-decisions-node';
import { DecisionInputError, decisions as byWasm } from '@hangar/breakglass-decisions/node';
import { load as loadInline } from '@hangar/breakglass-decisions/inline';
import { load as loadWeb } from '@hangar/breakglass-decisions/web';

/** A session as Tower reads it: no field is ever renamed or removed. */
interface TowerSession {
  id: string;
  app: string;
  env: string;
  cluster: string;
  namespace: string;
  pod: string;
  container: string;
  mode: 'copy' | 'live';
  state: 'requested' | 'approved' | 'active' | 'ended';
  tier: 'Ground' | 'Flight';
  processAccess: boolean;
  volumeAccess: boolean;
  volumes: { name: string; mountPath: string }[];
  recycleLastPod: boolean;
  recycled: boolean | null;
  holdApp: boolean;
  sensitive: boolean;
  reason: string;
  ticketUrl: string | null;
  requester: string;
  durationMinutes: number;
  approver: string | null;
  approvedAt: string | null;
  decisionNote: string | null;
  glassBroken: boolean;
  reviewState: 'due' | 'done' | null;
  reviewedBy: string | null;
  reviewedAt: string | null;
  reviewNote: string | null;
  recycleWaivedReason: string | null;
  createdAt: string;
  startedAt: string | null;
  extendedAt: string | null;
  expiresAt: string;
  endedAt: string | null;
  endReason: string | null;
  endedBy: string | null;
  recordingSha256: string | null;
  recordingBytes: number | null;
  recordingRekorIndex: number | null;
}

/** A value of the first type can stand where Tower expects the second. */
type Gives<Ours extends Tower, Tower> = Ours;

export type Kept = [
  Gives<Session, TowerSession>,
  Gives<MountedVolume, { name: string; mountPath: string; appPath: string; note: string | null }>,
  Gives<Queue, { toApprove: TowerSession[]; toStart: TowerSession[] }>,
  Gives<Queue['toReview'][number], TowerSession & { overdue: boolean }>,
  Gives<Preview, { declaredTier: 'Ground' | 'Flight' | null; groundClusters: string[] }>,
  Gives<Preview, { durations: number[]; limits: Limits }>,
  Gives<Limits, { perUser: number; perApp: number; perCluster: number }>,
  Gives<Problem, { field: string; code: string; message: string }>,
];

/** How the form uses the decisions, with every entry. */
export async function form(body: unknown, preview: Preview): Promise<string[]> {
  const entries: DecisionsApi[] = [byAddon, byWasm, await loadInline(), await loadWeb('/x.wasm')];
  return entries.flatMap(({ tierFor, parseSessionRequest }) => {
    const { tier, rule } = tierFor({
      preview: false,
      declared: preview.declaredTier,
      cluster: 'prod-1',
      groundClusters: preview.groundClusters,
    });
    const why: 'preview' | 'declared' | 'ground-cluster' | 'flight-cluster' = rule;
    try {
      const parsed = parseSessionRequest({ body, tier });
      return 'problems' in parsed
        ? parsed.problems.map(problem => `${problem.field}: ${problem.message}`)
        : [parsed.value.reason, why];
    } catch (error) {
      if (error instanceof DecisionInputError) return [error.code];
      throw error;
    }
  });
}

/** What is wrong does not compile. */
export function wrong(decisions: Decisions): void {
  // @ts-expect-error a cluster has a name
  decisions.tierFor({ preview: false, declared: null, groundClusters: [] });
  // @ts-expect-error there is no such tier
  decisions.parseSessionRequest({ body: {}, tier: 'Sea' });
  // @ts-expect-error not every answer is a value
  void decisions.parseReview({ body: {} }).value;
}

export const addon: [typeof host, number] = [host, loadErrors.length];
