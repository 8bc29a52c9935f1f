import type { Mail } from './mailer.js';

const sign = (base: string): string => `\n\n--\nMonolith at ${base}\n`;

export const resetLetter = (to: string, name: string, url: string, base: string): Mail => ({
  to,
  subject: 'Choose a new password',
  text: `Hello ${name},\n\nsomeone, probably you, requested a password reset for your account. Set a new password within one hour:\n\n${url}\n\nIf you did not request this, ignore this email. Your password will not change.${sign(base)}`,
});

export const verifyLetter = (to: string, name: string, url: string, base: string): Mail => ({
  to,
  subject: 'Confirm your email address',
  text: `Hello ${name},\n\nplease open this link within one hour to confirm your email address:\n\n${url}\n\nIf you did not sign up, ignore this email.${sign(base)}`,
});

export const inviteLetter = (to: string, from: string, organization: string, url: string, base: string): Mail => ({
  to,
  subject: `Invitation to ${organization}`,
  text: `Hello,\n\n${from} has invited you to join the organization "${organization}". To accept, open this link within 7 days:\n\n${url}\n\nIf you do not know the sender, ignore this email.${sign(base)}`,
});

export const changedLetter = (to: string, name: string, base: string): Mail => ({
  to,
  subject: 'Your password was changed',
  text: `Hello ${name},\n\nthe password of your account was just changed, and your other sessions were signed out. If this was not you, reset your password immediately:\n\n${base}/dashboard/forgot${sign(base)}`,
});

export const newEmailLetter = (to: string, name: string, url: string, base: string): Mail => ({
  to,
  subject: 'Confirm your new email address',
  text: `Hello ${name},\n\nopen this link within one hour to use this email address for your account:\n\n${url}\n\nIf you did not request this, ignore this email.${sign(base)}`,
});

export const emailChangedLetter = (to: string, name: string, now: string, base: string): Mail => ({
  to,
  subject: 'Your email address was changed',
  text: `Hello ${name},\n\nyour account's email address was just changed to ${now}. This is the last email to the old address. If this was not you, contact the operator of the server immediately.${sign(base)}`,
});

export const secondFactorLetter = (to: string, name: string, enabled: boolean, base: string): Mail => ({
  to,
  subject: enabled ? 'Two-factor authentication was turned on' : 'Two-factor authentication was turned off',
  text: enabled
    ? `Hello ${name},\n\nfrom now on, signing in to your account requires a code from your authenticator app. Your other sessions were signed out. If this was not you, contact the operator of the server immediately.${sign(base)}`
    : `Hello ${name},\n\nfrom now on, signing in to your account requires only your password. If this was not you, reset your password immediately:\n\n${base}/dashboard/forgot${sign(base)}`,
});

export const deletedLetter = (to: string, name: string, base: string): Mail => ({
  to,
  subject: 'Your account was deleted',
  text: `Hello ${name},\n\nyour account was just deleted. If this was not you, contact the operator of the server.${sign(base)}`,
});

const budgetEffect = (stops: boolean, percent: number): string => {
  if (!stops) return 'Requests are not blocked.';
  return percent >= 100
    ? 'Requests are refused until the next month (UTC) or until the budget is raised.'
    : 'Requests are refused when the budget is spent.';
};

export const budgetLetter = (
  to: string,
  {
    organization,
    percent,
    spent,
    amount,
    currency,
    month,
    stops,
  }: {
    organization: string;
    percent: number;
    spent: number;
    amount: number;
    currency: string;
    month: string;
    stops: boolean;
  },
  base: string,
): Mail => ({
  to,
  subject: `${organization} has spent ${percent}% of its budget`,
  text: `Hello,\n\nthe organization "${organization}" has spent ${spent.toFixed(2)} ${currency} of its budget of ${amount} ${currency} for ${month}. ${budgetEffect(stops, percent)} See the usage:\n\n${base}/dashboard/usage${sign(base)}`,
});
