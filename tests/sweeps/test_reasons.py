"""What helps jobs that wait, for every reason that SLURM has for it."""

from __future__ import annotations

import re

import pytest

from sweeps.slurm.decide import remedy

REASONS: dict[str | None, str] = {
    "another profile.account": "AccountNotAllowed InvalidAccount",
    None: """
        AccountingPolicy AssocGrpBB AssocGrpBBRunMinutes AssocGrpBilling
        AssocGrpBillingRunMinutes AssocGrpCPURunMinutesLimit AssocGrpCpuLimit AssocGrpEnergy
        AssocGrpEnergyRunMinutes AssocGrpGRES AssocGrpGRESRunMinutes AssocGrpJobsLimit
        AssocGrpLicense AssocGrpLicenseRunMinutes AssocGrpMemLimit AssocGrpMemRunMinutes
        AssocGrpNodeLimit AssocGrpNodeRunMinutes AssocGrpSubmitJobsLimit AssocGrpUnknown
        AssocGrpUnknownRunMinutes AssocMaxJobsLimit AssocMaxSubmitJobLimit AssociationJobLimit
        AssociationResourceLimit BeginTime BurstBufferResources BurstBufferStageIn Cleaning
        Dependency FedJobLock FrontEndDown JobArrayTaskLimit Licenses MaxBBPerAccount
        MaxBBRunMinsPerAccount MaxBBRunMinsPerUser MaxBillingPerAccount
        MaxBillingRunMinsPerAccount MaxBillingRunMinsPerUser MaxCpuPerAccount
        MaxCpuRunMinsPerAccount MaxCpuRunMinsPerUser MaxEnergyPerAccount
        MaxEnergyRunMinsPerAccount MaxEnergyRunMinsPerUser MaxGRESPerAccount
        MaxGRESRunMinsPerAccount MaxGRESRunMinsPerUser MaxJobsPerAccount MaxLicensePerAccount
        MaxLicenseRunMinsPerAccount MaxLicenseRunMinsPerUser MaxMemoryPerAccount
        MaxMemoryRunMinsPerAccount MaxMemoryRunMinsPerUser MaxNodePerAccount
        MaxNodeRunMinsPerAccount MaxNodeRunMinsPerUser MaxPoweredUpNodes MaxSubmitJobsPerAccount
        MaxUnknownPerAccount MaxUnknownRunMinsPerAccount MaxUnknownRunMinsPerUser MpiPortsBusy
        NodeDown Priority Prolog QOSGrpBB QOSGrpBBRunMinutes QOSGrpBilling
        QOSGrpBillingRunMinutes QOSGrpCPURunMinutesLimit QOSGrpCpuLimit QOSGrpEnergy
        QOSGrpEnergyRunMinutes QOSGrpGRES QOSGrpGRESRunMinutes QOSGrpJobsLimit QOSGrpLicense
        QOSGrpLicenseRunMinutes QOSGrpMemLimit QOSGrpMemoryRunMinutes QOSGrpNodeLimit
        QOSGrpNodeRunMinutes QOSGrpSubmitJobsLimit QOSGrpUnknown QOSGrpUnknownRunMinutes
        QOSJobLimit QOSMaxBBPerUser QOSMaxBillingPerUser QOSMaxCpuPerUserLimit
        QOSMaxEnergyPerUser QOSMaxGRESPerUser QOSMaxJobsPerUserLimit QOSMaxLicensePerUser
        QOSMaxMemoryPerUser QOSMaxNodePerUserLimit QOSMaxSubmitJobPerUserLimit
        QOSMaxUnknownPerUser QOSResourceLimit QOSUsageThreshold ReqNodeNotAvail Reservation
        Resources SchedDefer""",
    "used up": """
        AssocGrpBBMinutes AssocGrpBillingMinutes AssocGrpCPUMinutesLimit AssocGrpEnergyMinutes
        AssocGrpGRESMinutes AssocGrpLicenseMinutes AssocGrpMemMinutes AssocGrpNodeMinutes
        AssocGrpUnknownMinutes AssocGrpWallLimit AssociationTimeLimit QOSGrpBBMinutes
        QOSGrpBillingMinutes QOSGrpCPUMinutesLimit QOSGrpEnergyMinutes QOSGrpGRESMinutes
        QOSGrpLicenseMinutes QOSGrpMemoryMinutes QOSGrpNodeMinutes QOSGrpUnknownMinutes
        QOSGrpWallLimit QOSTimeLimit""",
    "a lower profile.time_minutes or demand": """
        AssocMaxBBMinutesPerJob AssocMaxBillingMinutesPerJob AssocMaxEnergyMinutesPerJob
        AssocMaxLicenseMinutesPerJob AssocMaxUnknownMinutesPerJob QOSMaxBillingMinutesPerJob
        QOSMaxEnergyMinutesPerJob QOSMaxLicenseMinutesPerJob QOSMaxUnknownMinutesPerJob""",
    "a lower demand": """
        AssocMaxBBPerJob AssocMaxBBPerNode AssocMaxBillingPerJob AssocMaxBillingPerNode
        AssocMaxEnergyPerJob AssocMaxEnergyPerNode AssocMaxLicensePerJob AssocMaxUnknownPerJob
        AssocMaxUnknownPerNode QOSMaxBBPerJob QOSMaxBBPerNode QOSMaxBillingPerJob
        QOSMaxBillingPerNode QOSMaxEnergyPerJob QOSMaxEnergyPerNode QOSMaxLicensePerJob
        QOSMaxUnknownPerJob QOSMaxUnknownPerNode""",
    "a lower profile.time_minutes or profile.cpus_per_task": """
        AssocMaxCpuMinutesPerJobLimit QOSMaxCpuMinutesPerJobLimit""",
    "a lower profile.cpus_per_task": """
        AssocMaxCpuPerJobLimit AssocMaxCpuPerNode QOSMaxCpuPerJobLimit QOSMaxCpuPerNode""",
    "a lower profile.time_minutes or profile.gpus_per_node": """
        AssocMaxGRESMinutesPerJob QOSMaxGRESMinutesPerJob""",
    "a lower profile.gpus_per_node": """
        AssocMaxGRESPerJob AssocMaxGRESPerNode QOSMaxGRESPerJob QOSMaxGRESPerNode""",
    "a lower profile.time_minutes or profile.mem_gb": """
        AssocMaxMemMinutesPerJob QOSMaxMemoryMinutesPerJob""",
    "a lower profile.mem_gb": """
        AssocMaxMemPerJob AssocMaxMemPerNode MaxMemPerLimit QOSMaxMemoryPerJob
        QOSMaxMemoryPerNode""",
    "a lower profile.time_minutes or profile.nodes": """
        AssocMaxNodeMinutesPerJob QOSMaxNodeMinutesPerJob""",
    "a lower profile.nodes": """
        AssocMaxNodePerJobLimit PartitionNodeLimit QOSMaxNodePerJobLimit""",
    "a lower profile.time_minutes": """
        AssocMaxWallDurationPerJobLimit PartitionTimeLimit QOSMaxWallDurationPerJobLimit""",
    "another profile.qos": "InvalidQOS QOSNotAllowed",
    "the site holds them: ask it": "JobHeldAdmin",
    "scontrol release": "JobHeldUser JobHoldMaxRequeue",
    "another profile.partition": "PartitionConfig",
    "wait, or give `run` with another profile.partition": "PartitionDown PartitionInactive",
    "a higher demand": """
        QOSMinBB QOSMinBilling QOSMinEnergy QOSMinLicense QOSMinUnknown""",
    "a higher profile.cpus_per_task": "QOSMinCpuNotSatisfied",
    "a higher profile.gpus_per_node": "QOSMinGRES",
    "a higher profile.mem_gb": "QOSMinMemory",
    "a higher profile.nodes": "QOSMinNode",
    "another profile.additional_parameters.reservation": "ReservationDeleted ReservationInvalid",
}
"""The reasons for which jobs wait, of SLURM 22.05 and since, by what helps; None where waiting
does, or nothing is known."""


@pytest.mark.parametrize("words", REASONS)
def test_every_limit_that_no_waiting_ends_has_a_remedy_with_the_profiles_key(
    words: str | None,
) -> None:
    for reason in REASONS[words].split():
        helps = remedy(reason)
        if words is None:
            assert helps is None, reason
        else:
            assert helps is not None and re.search(rf"{re.escape(words)}($|[ ,])", helps), reason
