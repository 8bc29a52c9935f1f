// POST /users/{id}/reset-link: creates a password reset link, which the operator passes on to the user. For servers
// that do not send email.

import { TOKEN_MS } from '../../accounts/tokens.js';
import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import { readServerRecord } from '../../storage/data-dir-lock.js';
import type { Config } from '../../config/settings.js';
import type { SignIns } from '../../accounts/sign-ins.js';
import { resetUrl } from '../api/objects.js';
import type { DashboardOrigin } from '../origin.js';
import type { OperatorGuard } from './operator-guard.js';

export interface ResetLinkDeps {
  signIns: Pick<SignIns, 'handedToken'>;
  origin: DashboardOrigin;
  config: Pick<Config, 'data_dir'>;
  now: () => number;
}

export function resetLinkRoutes(guard: OperatorGuard, { signIns, origin, config, now }: ResetLinkDeps): Route[] {
  return [
    guard({
      method: 'POST',
      path: '/users/:user/reset-link',
      handler: async ({ exchange, actor, userId }) => {
        const id = exchange.params['user'] as string;
        // The admin listener has no dashboard, so its own address cannot be used in the link.
        const base =
          userId !== null
            ? origin.base(exchange)
            : (origin.fixed ?? readServerRecord(config.data_dir)?.url ?? origin.base(exchange));
        const token = await signIns.handedToken(id, actor);
        if (token === null) throw apiError('resource_not_found', 'User not found.', 'user');
        exchange.json(200, {
          url: resetUrl(base, token),
          expires_at: new Date(now() + TOKEN_MS).toISOString(),
        });
      },
    }),
  ];
}
