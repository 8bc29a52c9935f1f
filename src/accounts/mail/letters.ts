// The mails people get, as text.

import type { Mail } from './mailer.js';

const sign = (base: string): string => `\n\n--\nMonolith at ${base}\n`;

export const resetLetter = (to: string, name: string, url: string, base: string): Mail => ({
  to,
  subject: 'Choose a new password',
  text: `Hello ${name},\n\nsomebody, probably you, asked for a new password. Choose one here within an hour:\n\n${url}\n\nIf it was not you, do nothing: your password stays as it is.${sign(base)}`,
});

export const verifyLetter = (to: string, name: string, url: string, base: string): Mail => ({
  to,
  subject: 'Confirm your e-mail address',
  text: `Hello ${name},\n\nopen this link within an hour to confirm that this address is yours:\n\n${url}\n\nIf you have not signed up, do nothing.${sign(base)}`,
});

export const inviteLetter = (to: string, from: string, organization: string, url: string, base: string): Mail => ({
  to,
  subject: `Invitation to ${organization}`,
  text: `Hello,\n\n${from} invites you to the organization "${organization}". Open this link within 7 days:\n\n${url}\n\nIf you do not know the sender, do nothing.${sign(base)}`,
});

export const changedLetter = (to: string, name: string, base: string): Mail => ({
  to,
  subject: 'Your password was changed',
  text: `Hello ${name},\n\nthe password of your account was changed just now, and your other sessions have ended. If it was not you, choose a new one at once:\n\n${base}/dashboard/forgot${sign(base)}`,
});

export const newEmailLetter = (to: string, name: string, url: string, base: string): Mail => ({
  to,
  subject: 'Confirm your new e-mail address',
  text: `Hello ${name},\n\nopen this link within an hour, and your account has this address from then on:\n\n${url}\n\nIf you have not asked for it, do nothing.${sign(base)}`,
});

export const emailChangedLetter = (to: string, name: string, now: string, base: string): Mail => ({
  to,
  subject: 'Your e-mail address was changed',
  text: `Hello ${name},\n\nyour account has the address ${now} since just now; this is the last mail to the old one. If it was not you, tell the operator of the server at once.${sign(base)}`,
});

export const secondFactorLetter = (to: string, name: string, enabled: boolean, base: string): Mail => ({
  to,
  subject: enabled ? 'Your second factor was turned on' : 'Your second factor was turned off',
  text: enabled
    ? `Hello ${name},\n\nsigning in to your account takes a code of your authenticator app from now on, and your other sessions have ended. If it was not you, tell the operator of the server at once.${sign(base)}`
    : `Hello ${name},\n\nsigning in to your account takes the password alone from now on. If it was not you, choose a new password at once:\n\n${base}/dashboard/forgot${sign(base)}`,
});

export const deletedLetter = (to: string, name: string, base: string): Mail => ({
  to,
  subject: 'Your account was deleted',
  text: `Hello ${name},\n\nyour account was deleted just now. If it was not you, tell the operator of the server.${sign(base)}`,
});

export const budgetLetter = (
  to: string,
  {
    organization,
    percent,
    spent,
    amount,
    currency,
    month,
  }: { organization: string; percent: number; spent: number; amount: number; currency: string; month: string },
  base: string,
): Mail => ({
  to,
  subject: `${organization} has spent ${percent} percent of its budget`,
  text: `Hello,\n\nthe organization "${organization}" has spent ${spent.toFixed(2)} ${currency} of its budget of ${amount} ${currency} for ${month}. Nothing is stopped by that. What was used:\n\n${base}/dashboard/usage${sign(base)}`,
});
