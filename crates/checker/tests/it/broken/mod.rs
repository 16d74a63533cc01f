//! For each promise histories that break it, where commits are seen.

mod commits;
mod dead;
mod effects;
mod leased;
mod operator;
mod owners;
mod settled;
mod stored;

use driftq_checker::Invariant::{self, *};

use crate::{Case, assert_breaks};

/// What breaks, with what else cannot be helped, and how.
const CASES: &[(&[Invariant], Case)] = &[
    (&[I1, I51], settled::never_granted),
    (&[I1], settled::trimmed_before_it_is_read),
    (&[I1], stored::answered_but_not_stored),
    (&[I1], leased::passed_by_though_meant_for_the_group),
    (&[I1, I51], commits::the_next_step_is_never_granted),
    (&[I1], commits::said_to_have_arrived),
    (&[I1], commits::given_up_before_it_arrives),
    (&[I1], operator::a_group_is_deleted_before_it_is_idle),
    (&[I1], operator::a_group_is_deleted_while_it_is_read),
    (&[I2], stored::stored_but_never_sent),
    (&[I2], stored::delivered_before_it_is_stored),
    (&[I2], commits::more_arrives_than_was_sent),
    (&[I3], stored::delivered_with_another_key),
    (&[I3], stored::stored_under_another_tenant),
    (&[I3], dead::a_letter_with_another_body),
    (&[I3], dead::buried_with_another_body),
    (&[I4], stored::delivered_under_another_id),
    (&[I4, I22], dead::a_letter_with_another_origin),
    (&[I5], stored::refused_and_stored),
    (&[I5, I55], commits::stored_though_its_commit_is_refused),
    (&[I5], stored::a_conflict_with_a_rejected_message),
    (&[I6], stored::sent_once_and_stored_twice),
    (&[I6, I42], stored::a_repeat_stored_again),
    (&[I6, I42], stored::a_pin_leads_to_two_messages),
    (&[I6], commits::arrives_twice),
    (&[I6], commits::a_commit_is_done_twice),
    (&[I7], stored::sent_later_and_stored_earlier),
    (&[I8], stored::an_older_epoch_commits),
    (&[I8], stored::an_offset_is_left_out),
    (&[I8], stored::the_clock_goes_back),
    (&[I8], stored::a_batch_is_left_out),
    (&[I8], stored::a_generation_comes_back),
    (&[I8], commits::a_number_goes_out_twice),
    (&[I8], settled::trimmed_to_an_earlier_offset),
    (&[I9], leased::an_attempt_is_granted_again),
    (&[I9], leased::delivered_and_not_granted),
    (&[I10], leased::granted_while_leased),
    (&[I10], leased::a_lease_that_is_over_is_renewed),
    (&[I10], leased::an_attempt_ends_that_is_not_the_last),
    (&[I10], leased::a_nacked_attempt_is_acked),
    (&[I11], settled::a_stale_extend_is_done),
    (&[I11], settled::a_settlement_of_an_old_generation_is_done),
    (&[I11], settled::an_ack_in_a_deleted_group_is_done),
    (&[I12], settled::granted_after_an_ack_was_answered),
    (&[I12], settled::answered_as_acked_and_dead),
    (&[I12], commits::told_committed_and_is_not),
    (&[I13, I51], settled::delivered_and_forgotten),
    (&[I13], settled::acked_by_nobody),
    (&[I13], settled::acked_by_another_group),
    (&[I14], leased::acked_twice),
    (&[I14], leased::granted_after_its_end),
    (&[I14], leased::granted_in_a_generation_that_is_over),
    (&[I14], leased::granted_in_a_group_that_is_gone),
    (&[I15], leased::expired_too_early),
    (&[I15], leased::an_extended_lease_expires_at_its_first_end),
    (&[I15], leased::nacked_by_nobody),
    (&[I15], dead::exhausted_before_its_time),
    (&[I16], leased::waits_longer_than_the_policy_says),
    (&[I16], leased::waits_less_than_a_tenth),
    (&[I16], leased::waits_a_negative_time),
    (&[I17], settled::a_repeated_ack_is_refused),
    (&[I17], commits::a_repeated_commit_is_refused),
    (&[I17], commits::a_repeat_is_told_otherwise),
    (&[I18], leased::an_attempt_is_left_out),
    (&[I18], leased::a_given_back_attempt_counts),
    (&[I18], leased::delivered_with_another_count),
    (&[I19], leased::granted_more_often_than_allowed),
    (&[I20], dead::a_dead_letter_is_missing),
    (&[I20], dead::dead_without_a_dead_letter),
    (&[I20], dead::buried_in_another_commit),
    (&[I20, I21], dead::died_while_still_leased),
    (&[I20], dead::a_letter_of_nobody),
    (&[I20], commits::turned_away_and_gone),
    (&[I20], commits::came_back_and_is_not_there),
    (&[I20], operator::a_dead_letter_is_deleted_unasked),
    (&[I20], operator::a_dead_letter_is_deleted_before_its_time),
    (&[I20], operator::more_is_said_to_be_deleted_than_was),
    (&[I21], dead::exhausted_too_early),
    (&[I21], dead::final_though_nobody_said_so),
    (&[I21], dead::dead_before_its_deadline),
    (&[I21], commits::came_back_though_nobody_said_so),
    (&[I22], dead::a_dead_letter_counts_wrong),
    (&[I22], dead::a_letter_of_another_group),
    (&[I22], dead::a_letter_with_another_reason),
    (&[I22], dead::a_letter_without_an_error),
    (&[I22], dead::a_letter_with_another_key),
    (&[I22], commits::came_back_to_another),
    (&[I23], dead::redriven_as_another),
    (&[I23], dead::redriven_twice),
    (&[I23], dead::redriven_with_another_body),
    (&[I23], dead::redriven_for_another_group),
    (&[I23], dead::redriven_from_no_dead_letter),
    (&[I23], dead::redriven_and_granted_to_another_group),
    (&[I23], dead::a_letter_says_redriven),
    (&[I25], leased::read_behind_its_start),
    (&[I27], leased::a_message_is_left_out),
    (&[I27], operator::a_group_begins_before_its_time),
    (&[I28], stored::one_producer_out_of_order),
    (&[I28], commits::arrives_out_of_order),
    (&[I29], leased::more_leases_than_credit),
    (&[I29], leased::more_leases_than_the_group_allows),
    (&[I31], stored::stored_with_another_size),
    (&[I31], stored::too_large_to_be_stored),
    (&[I32], owners::an_epoch_is_given_out_twice),
    (&[I32], owners::decided_under_the_epoch_of_another),
    (&[I33], owners::committed_after_the_claim_of_another),
    (&[I34], settled::refused_before_it_was_so),
    (&[I34], stored::a_conflict_with_nothing),
    (&[I34], effects::told_before_it_is_committed),
    (&[I34], commits::a_commit_is_answered_before_it_is_one),
    (&[I35], owners::decided_after_the_lease),
    (&[I35], owners::decided_long_after_it_goes_on),
    (&[I35], owners::decided_long_after_it_goes_on_though_it_is_stopped_again),
    (&[I37], effects::given_out_while_it_is_held),
    (&[I37], effects::given_to_another_nonce),
    (&[I37], effects::executed_again_though_parked),
    (&[I37], effects::executed_again_past_the_window),
    (&[I37], effects::the_window_moves),
    (&[I37], effects::executed_though_it_should_be_probed),
    (&[I37], effects::acked_while_an_effect_is_in_doubt),
    (&[I37], effects::doubted_while_its_delivery_has_it),
    (&[I38], effects::finished_by_an_older_fence),
    (&[I38], effects::ended_by_nobody),
    (&[I38], effects::resolved_with_another_outcome),
    (&[I39], effects::executed_though_it_is_over),
    (&[I39], effects::replayed_with_another_result),
    (&[I39], effects::in_progress_though_it_is_over),
    (&[I39], effects::another_outcome_is_said_to_be_taken),
    (&[I40], effects::replayed_to_another_request),
    (&[I40], effects::a_conflict_of_equal_requests),
    (&[I40], effects::the_request_of_an_effect_changes),
    (&[I42], stored::a_key_taken_twice),
    (&[I42], stored::a_duplicate_under_another_key),
    (&[I42], stored::a_key_is_pinned_twice),
    (&[I42], stored::a_pin_is_ignored),
    (&[I42], stored::a_taken_key_is_pinned),
    (&[I43], stored::a_key_outlives_its_window),
    (&[I43], stored::a_pin_outlives_its_window),
    (&[I43], effects::forgotten_before_its_time),
    (&[I43], effects::found_after_its_time),
    (&[I43], effects::to_be_forgotten_while_its_message_is_open),
    (&[I43], effects::told_to_a_message_that_does_not_keep_it),
    (&[I43], effects::its_time_never_begins),
    (&[I43], effects::found_by_a_new_key_after_a_move),
    (&[I45], stored::a_key_meets_another_tenant),
    (&[I45], effects::told_of_another_tenant),
    (&[I45], effects::begun_for_another_tenant),
    (&[I49], leased::granted_before_it_is_due),
    (&[I50], leased::granted_after_its_deadline),
    (&[I51], settled::counters_never_drain),
    (&[I51], commits::on_its_way_for_ever),
    (&[I51], operator::a_partition_is_forgotten),
    (&[I52], settled::counters_lie),
    (&[I52], operator::a_group_is_said_to_be_paused),
    (&[I52], settled::counters_of_no_batch),
    (&[I52], settled::counters_of_an_older_generation),
    (&[I55], commits::committed_without_its_message),
    (&[I55], commits::committed_and_not_ended),
    (&[I55], commits::committed_without_an_outcome),
    (&[I55], commits::a_message_of_a_commit_that_is_not),
    (&[I55], operator::a_pointer_is_not_set_with_its_commit),
    (&[I56], operator::rows_are_damaged),
    (&[I56], operator::rows_are_left_behind),
    (&[I57], operator::an_outdated_lease_is_accepted),
    (&[I57], operator::an_id_of_before_a_restore_is_accepted),
    (&[I58], operator::a_message_is_shown_where_it_is_not),
    (&[I58], operator::a_message_is_shown_where_it_was),
    (&[I58], operator::settings_are_shown_that_are_not),
    (&[I58], operator::a_pointer_is_shown_where_it_does_not_lead),
    (&[I59], operator::granted_while_paused),
    (&[I1], operator::a_message_is_given_up_that_nothing_damaged),
    (&[I60], dead::exhausted_by_an_attempt_nobody_was_shown),
];

#[test]
fn every_bad_history_breaks_its_promise_and_no_other() {
    for (broken, case) in CASES {
        assert_breaks(broken, *case);
    }
}

#[test]
fn every_promise_has_a_bad_history() {
    for invariant in Invariant::ALL {
        let is_shown = |(broken, _): &(&[Invariant], Case)| broken[0] == invariant;
        assert!(CASES.iter().any(is_shown), "no history breaks {invariant}");
    }
}

#[test]
fn promises_are_listed_in_the_order_of_their_numbers() {
    assert!(Invariant::ALL.is_sorted());
    for (i, invariant) in Invariant::ALL.into_iter().enumerate() {
        assert_eq!(invariant as usize, i, "{invariant} is out of place");
    }
    assert_eq!(Invariant::I45.to_string(), "I45");
}
