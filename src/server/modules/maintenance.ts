// Periodic account maintenance on the primary thread: budget notifications, and erasing deleted organizations and
// expired account data.

import { finishDeletions } from '../../accounts/delete-organization.js';
import { BudgetWatch } from '../../usage/budget-watch.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Mail } from './mail.js';
import type { Storage } from './storage.js';

/** How long finished webhook deliveries are kept, in ms. */
const DELIVERIES_KEPT_MS = 7 * 86_400_000;

export function openMaintenance({
  config,
  telemetry: { log },
  primary,
  storage: {
    directory,
    budgets,
    prices,
    usage,
    saved,
    conversations,
    batches,
    completions,
    webhooks,
    files,
    uploads,
    organizationData,
    gate,
  },
  mail: { mailer, origin },
}: AppContext & { storage: Storage; mail: Mail }): Promise<Module> {
  return openModule((undo) => {
    const { organizations, members, users } = directory;
    const budgetWatch = primary
      ? new BudgetWatch({
          budgets,
          prices,
          usage,
          organizations,
          members,
          mailer,
          base: origin.fixed,
          webhooks: config.webhooks,
          log,
        })
      : null;
    undo.add(() => budgetWatch?.close());
    if (primary)
      directory.keepSwept(
        async () => {
          await finishDeletions(organizations, organizationData, config.usage.row_days, directory.now());
          await sweepEach(
            {
              saved: () => saved.sweep(async (id) => (await users.get(id)) !== null),
              conversations: () => conversations.sweep(),
              completions: () => completions.sweep(),
              webhooks: () => webhooks.sweep(directory.now() - DELIVERIES_KEPT_MS),
              batches: () => batches.sweep(),
              'file holds': () =>
                files.releaseUnneeded(async (organizationId, id) => {
                  const batch = await batches.get(organizationId, id);
                  return batch !== null && batch.phase !== 'ended';
                }),
              files: () => files.sweep(),
              uploads: () => uploads.sweep(),
            },
            (err, table) => log.error({ err, table }, 'sweep failed'),
          );
        },
        (err) => log.error({ err }, 'sweeping accounts failed'),
        gate,
      );
    return {};
  });
}

/** Runs the sweeps one after another. If a sweep fails, calls `onError` and continues with the next one. */
async function sweepEach(
  sweeps: Readonly<Record<string, () => Promise<unknown>>>,
  onError: (error: unknown, name: string) => void,
): Promise<void> {
  for (const [name, sweep] of Object.entries(sweeps)) {
    try {
      await sweep();
    } catch (error) {
      onError(error, name);
    }
  }
}
