import type { DecisionsApi } from './api';

export * from './api';

/** Loads the module once; later calls share it. `source`: where it lies, if not beside the glue. */
export declare function load(source?: string | URL | Request | Response): Promise<DecisionsApi>;
