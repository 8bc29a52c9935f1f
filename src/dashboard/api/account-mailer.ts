// Sends the dashboard's email, if email is configured. Links use the configured address, never one taken from a
// request. Otherwise, attackers could make the server send links to their own site.

import type { ShownInvite } from '../../accounts/invites.js';
import type { SignIns } from '../../accounts/sign-ins.js';
import type { User } from '../../accounts/users.js';
import {
  changedLetter,
  deletedLetter,
  emailChangedLetter,
  inviteLetter,
  newEmailLetter,
  resetLetter,
  secondFactorLetter,
  verifyLetter,
} from '../../accounts/mail/email-templates.js';
import type { Mailer } from '../../accounts/mail/mailer.js';
import { inviteUrl, newEmailUrl, resetUrl, verifyUrl } from './objects.js';

export class AccountMailer {
  constructor(
    private readonly signIns: SignIns,
    private readonly mailer: Mailer,
    private readonly base: string | null,
    private readonly onError: (error: unknown) => void,
  ) {}

  get enabled(): boolean {
    return this.mailer.enabled && this.base !== null;
  }

  /** Creates the link's token, and sends the email in the background. */
  verifyEmail(user: User): void {
    this.write(async (base) => {
      const token = await this.signIns.mailedToken(user.id, 'email');
      this.mailer.send(verifyLetter(user.email, user.name, verifyUrl(base, token), base));
    });
  }

  resetPassword(user: User): void {
    this.write(async (base) => {
      const token = await this.signIns.mailedToken(user.id, 'password');
      this.mailer.send(resetLetter(user.email, user.name, resetUrl(base, token), base));
    });
  }

  invite({ email, token }: ShownInvite, from: User, organization: string): void {
    if (token !== null)
      this.write((base) =>
        this.mailer.send(
          inviteLetter(email, `${from.name} (${from.email})`, organization, inviteUrl(base, token), base),
        ),
      );
  }

  passwordChanged(user: User): void {
    this.write((base) => this.mailer.send(changedLetter(user.email, user.name, base)));
  }

  /** Sent to the new address. */
  newEmail({ name }: User, email: string, token: string): void {
    this.write((base) => this.mailer.send(newEmailLetter(email, name, newEmailUrl(base, token), base)));
  }

  /** Notifies the old address, even if an operator made the change. */
  emailChanged(user: User, before: string): void {
    this.write((base) => this.mailer.send(emailChangedLetter(before, user.name, user.email, base)));
  }

  secondFactorChanged(user: User, enabled: boolean): void {
    this.write((base) => this.mailer.send(secondFactorLetter(user.email, user.name, enabled, base)));
  }

  accountDeleted(user: User): void {
    this.write((base) => this.mailer.send(deletedLetter(user.email, user.name, base)));
  }

  private write(letter: (base: string) => void | Promise<void>): void {
    const { base } = this;
    if (base === null || !this.mailer.enabled) return;
    void (async () => {
      await letter(base);
    })().catch(this.onError);
  }
}
