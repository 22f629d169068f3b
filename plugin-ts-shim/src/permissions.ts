/**
 * The four permissions that a policy answers (B-3).
 *
 * All of them are asked with the app's catalog entity as resource, never without, so that a
 * policy may answer by ownership. `terminate` and `self` are grant-only (S-12): a policy that
 * does not name them must deny them; the README shows one.
 */
import { RESOURCE_TYPE_CATALOG_ENTITY } from '@backstage/plugin-catalog-common/alpha';
import { createPermission } from '@backstage/plugin-permission-common';

/** Ask for a session on the app, see its sessions, and use one's own. */
export const breakglassRequestPermission = createPermission({
  name: 'tower.breakglass.request',
  attributes: { action: 'create' },
  resourceType: RESOURCE_TYPE_CATALOG_ENTITY,
});

/** Decide on somebody else's request for the app, and review broken glass. */
export const breakglassApprovePermission = createPermission({
  name: 'tower.breakglass.approve',
  attributes: { action: 'update' },
  resourceType: RESOURCE_TYPE_CATALOG_ENTITY,
});

/** End anybody's session on the app; whoever holds it is an admin (S-13). Grant-only. */
export const breakglassTerminatePermission = createPermission({
  name: 'tower.breakglass.terminate',
  attributes: { action: 'delete' },
  resourceType: RESOURCE_TYPE_CATALOG_ENTITY,
});

/** Break the glass: open a Flight session without a second person. Grant-only. */
export const breakglassSelfPermission = createPermission({
  name: 'tower.breakglass.self',
  attributes: { action: 'create' },
  resourceType: RESOURCE_TYPE_CATALOG_ENTITY,
});

/** Every permission of this plugin, in the order in which they are asked. */
export const breakglassPermissions = [
  breakglassRequestPermission,
  breakglassSelfPermission,
  breakglassApprovePermission,
  breakglassTerminatePermission,
];
