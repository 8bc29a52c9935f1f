// Outgoing email, and the dashboard address for the links in it.

import { openMailer } from '../../accounts/mail/mailer.js';
import type { Mailer } from '../../accounts/mail/mailer.js';
import { DashboardOrigin } from '../../dashboard/origin.js';
import { StartError } from '../../shared/errors.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';

export interface Mail extends Module {
  readonly mailer: Mailer;
  readonly origin: DashboardOrigin;
}

export function openMail({ config, telemetry: { log } }: AppContext): Promise<Mail> {
  return openModule((undo) => {
    const origin = new DashboardOrigin(config);
    if (config.mail.smtp_url !== null && origin.fixed === null) {
      throw new StartError(
        "mail.smtp_url requires dashboard.url: links in emails must not depend on a request's address.",
      );
    }
    const mailer = openMailer(config.mail, log);
    undo.add(() => mailer.close());
    return { mailer, origin };
  });
}
