// The names of an order's states. A state that this page does not know yet is shown by its own name.

import { has, t } from './i18n.js';

export const statusName = (status) => (has(`status.${status}`) ? t(`status.${status}`) : t('status.other', { status }));

export const statusSentence = (status) => (has(`order.${status}`) ? t(`order.${status}`) : t('order.other', { status }));

const tones = {
  pending: 'waiting', unpaid: 'waiting', refunding: 'waiting',
  confirmed: 'good', paid: 'good',
  rejected: 'bad', lost: 'bad', cancelled: 'plain', expired: 'plain', refunded: 'plain',
};

export const statusTone = (status) => tones[status] ?? 'plain';

// live says whether an order still stands, so that its buyer cannot buy again.
export const live = (status) => !['rejected', 'lost', 'cancelled', 'expired', 'refunded'].includes(status);
