// The signing secrets of webhook endpoints, which are stored encrypted. After a rotation, requests are also signed with
// the previous secret until the overlap ends, so that receivers can be updated one after another.
import type { SecretBox } from '../accounts/sealing/secret-box.js';
import type { Endpoint, PreviousSecret, WebhookStore } from './webhook-store.js';

/** The purpose for which SecretBox encrypts the secrets. */
export const SEALED_FOR = 'webhook secret';

/** Returns the previous secrets that are still in use at this time, newest first. */
export const previousSecrets = ({ previousSecrets: all = [] }: Endpoint, now: number): readonly PreviousSecret[] =>
  all.filter(({ until }) => until > now);

/**
 * Decrypts the secrets that sign a request at this time, the current secret first. Re-encrypts them with the current
 * key if one of them was encrypted with an older key. Rejects if the current secret cannot be decrypted. A previous
 * secret that cannot be decrypted is reported to `onUnreadable` and skipped, so that it does not block deliveries.
 */
export async function secretsOf(
  endpoint: Endpoint,
  {
    box,
    store,
    now,
    onUnreadable,
  }: { box: Pick<SecretBox, 'open' | 'seal'>; store: WebhookStore; now: number; onUnreadable: () => void },
): Promise<readonly [string, ...string[]]> {
  const { organizationId, id, sealedSecret } = endpoint;
  let isStale = false;
  const open = (sealed: string): string | null => {
    const opened = box.open(SEALED_FOR, id, sealed);
    if (opened?.current === false) isStale = true;
    return opened?.text ?? null;
  };
  const current = open(sealedSecret);
  if (current === null) throw new Error('the secret was sealed with a key that is not in secrets.signing_keys');
  const previous = previousSecrets(endpoint, now).map((one) => ({ ...one, text: open(one.sealed) }));
  if (previous.some(({ text }) => text === null)) onUnreadable();
  if (isStale) {
    const seal = (text: string): string => box.seal(SEALED_FOR, id, text);
    await store.changeEndpoint(organizationId, id, (before) =>
      before.sealedSecret === sealedSecret
        ? {
            ...before,
            sealedSecret: seal(current),
            previousSecrets: previous.map(({ sealed, text, until }) => ({
              sealed: text === null ? sealed : seal(text),
              until,
            })),
          }
        : null,
    );
  }
  return [current, ...previous.flatMap(({ text }) => (text === null ? [] : [text]))];
}
